import { describe, expect, it } from "vitest";
import type { Manifest } from "../runtime/index.ts";
import { startsAtOnce } from "./loader.ts";
import {
  downloadSize,
  type Offered,
  type Options,
  offeredBy,
  parseOptions,
  smallestSize,
  withOption,
} from "./options.ts";

const OFFERED: Offered = {
  devices: ["webgpu", "wasm"],
  dtypes: new Map([
    ["fp32", 10],
    ["int8", 3],
  ]),
};

const parse = (query: string) => parseOptions(new URLSearchParams(query), OFFERED);

const MANIFEST = {
  stages: [
    { kind: "pre", variants: [{ dtype: "fp32", size: 100, devices: ["wasm"] }] },
    {
      kind: "model",
      variants: [
        { dtype: "fp32", size: 10, devices: ["wasm"] },
        { dtype: "int8", size: 3, devices: ["webgpu", "wasm"] },
      ],
    },
    { kind: "model", variants: [{ dtype: "fp32", size: 5, devices: ["wasm"] }] },
  ],
  runtime: {
    flavours: [
      { name: "wasm", api: { size: 1000 }, glue: { size: 2000 }, wasm: { size: 10_000 } },
      { name: "jspi", api: { size: 1000 }, glue: { size: 2000 }, wasm: { size: 20_000 } },
      { name: "asyncify", api: { size: 1000 }, glue: { size: 2000 }, wasm: { size: 30_000 } },
    ],
  },
} as unknown as Manifest;

describe("offeredBy", () => {
  it("looks at the model's own stages and adds them up", () => {
    const { devices, dtypes } = offeredBy(MANIFEST);
    expect(devices).toEqual(["webgpu", "wasm"]);
    expect([...dtypes]).toEqual([
      ["fp32", 15],
      ["int8", 3],
    ]);
  });
});

describe("parseOptions", () => {
  it("takes what is offered", () => {
    const options = { device: "wasm", dtype: "int8", threads: 1 };
    expect(parse("device=wasm&dtype=int8&threads=1")).toEqual({ options, notes: [] });
  });

  it("is automatic without a word", () => {
    const options = { device: "auto", dtype: "auto", threads: "auto" };
    expect(parse("")).toEqual({ options, notes: [] });
    expect(parse("device=auto&dtype=auto&threads=auto")).toEqual({ options, notes: [] });
  });

  it.each(["device=tpu", "dtype=fp64", "threads=0", "threads=many", "threads=1.5", "threads=65"])(
    "leaves %s aside with a note",
    (query) => {
      const { options, notes } = parse(query);
      expect(options).toEqual({ device: "auto", dtype: "auto", threads: "auto" });
      expect(notes).toHaveLength(1);
      expect(notes[0]).toContain(query);
    },
  );
});

describe("withOption", () => {
  const address = new URL("https://host.example/repo/models/net/?threads=2#code");

  it("keeps what else the address says", () => {
    expect(withOption(address, "dtype", "int8").href).toBe(
      "https://host.example/repo/models/net/?threads=2&dtype=int8#code",
    );
  });

  it("takes an automatic choice out", () => {
    expect(withOption(address, "threads", "auto").search).toBe("");
  });
});

describe("the first download", () => {
  it("is the smallest variant of every stage of the model", () => {
    expect(smallestSize(MANIFEST)).toBe(8);
  });

  it.each([
    // Preparation 100, the model's stages, and the runtime of the device.
    [{}, 100 + 8 + 13_000],
    [{ dtype: "fp32" }, 100 + 15 + 13_000],
    [{ device: "wasm", dtype: "int8" }, 100 + 8 + 13_000],
    [{ device: "webgpu" }, 100 + 8 + 23_000],
  ] satisfies [Partial<Options>, number][])("with %j is about %d bytes", (options, bytes) => {
    const all: Options = { device: "auto", dtype: "auto", threads: "auto", ...options };
    expect(downloadSize(MANIFEST, all)).toBe(bytes);
  });

  it("starts at once below 30 MB, unless data are to be saved", () => {
    expect(startsAtOnce(29_999_999, false)).toBe(true);
    expect(startsAtOnce(30_000_000, false)).toBe(false);
    expect(startsAtOnce(1, true)).toBe(false);
  });
});
