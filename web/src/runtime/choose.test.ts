import { describe, expect, it } from "vitest";
import { choose } from "./choose.ts";
import type { Manifest, Variant, VariantName } from "./manifest.gen.ts";
import type { LoadOptions, Probe } from "./types.ts";

function variant(dtype: VariantName, features: string[] = [], maxBufferSize = 1): Variant {
  const compute = features.length > 0 ? "float16" : "float32";
  const devices = features.length > 0 ? ["webgpu"] : ["webgpu", "wasm"];
  const requires = { features, maxBufferSize, maxStorageBufferBindingSize: 1 };
  const name = `${dtype}${features.length > 0 ? "-half" : ""}`;
  return { name, dtype, compute, devices, requires } as unknown as Variant;
}

const MULTIPLIED = { ...variant("int8"), name: "int8-wasm", devices: ["wasm"] } as Variant;

const forTheCpu = (dtype: VariantName) => ({ ...variant(dtype), devices: ["wasm"] }) as Variant;

const VARIANTS = [
  variant("fp32"),
  variant("fp16"),
  variant("fp16", ["shader-f16"]),
  variant("int8"),
  MULTIPLIED,
  variant("int8", ["shader-f16"]),
  variant("q4f16", ["shader-f16"]),
];

const manifest = (variants = VARIANTS) =>
  ({ stages: [{ kind: "pre" }, { kind: "model", variants }] }) as unknown as Manifest;

const gpu = (...features: string[]) => ({
  description: "GPU",
  features,
  maxBufferSize: 2 ** 28,
  maxStorageBufferBindingSize: 2 ** 27,
});

function probe(changes: Partial<Probe> = {}): Probe {
  return {
    adapter: null,
    reason: "this browser has no WebGPU",
    jspi: true,
    cores: 8,
    crossOriginIsolated: true,
    ...changes,
  };
}

const chosen = (device: Probe, options: LoadOptions = {}, variants = VARIANTS) => {
  const { candidates, events } = choose(manifest(variants), device, options);
  return {
    list: candidates.map((c) => `${c.device} ${c.variant} ${c.flavour} ${c.threads}`),
    said: events.map(({ level, message }) => `${level}: ${message}`).join("\n"),
  };
};

describe("without wishes", () => {
  it.each([
    ["no GPU", probe(), ["wasm int8-wasm wasm 4", "wasm int8 wasm 4", "wasm fp16 wasm 4"]],
    [
      "a GPU with halves",
      probe({ adapter: gpu("shader-f16") }),
      [
        "webgpu int8-half jspi 1",
        "webgpu int8 jspi 1",
        "wasm int8-wasm wasm 4",
        "wasm int8 wasm 4",
        "wasm fp16 wasm 4",
      ],
    ],
    [
      "a GPU without halves",
      probe({ adapter: gpu() }),
      ["webgpu int8 jspi 1", "wasm int8-wasm wasm 4", "wasm int8 wasm 4", "wasm fp16 wasm 4"],
    ],
    [
      "no JSPI",
      probe({ adapter: gpu(), jspi: false }),
      ["webgpu int8 asyncify 1", "wasm int8-wasm wasm 4", "wasm int8 wasm 4", "wasm fp16 wasm 4"],
    ],
    [
      "two cores",
      probe({ cores: 2 }),
      ["wasm int8-wasm wasm 2", "wasm int8 wasm 2", "wasm fp16 wasm 2"],
    ],
    [
      "no isolation",
      probe({ crossOriginIsolated: false }),
      ["wasm int8-wasm wasm 1", "wasm int8 wasm 1", "wasm fp16 wasm 1"],
    ],
  ])("%s", (_name, device, wanted) => {
    expect(chosen(device).list).toEqual(wanted);
  });

  it("says why the GPU isn't used", () => {
    expect(chosen(probe()).said).toBe(
      "warning: The GPU isn't used: this browser has no WebGPU. The model runs on the CPU.",
    );
  });

  it("says that threads need headers, as a warning only where the CPU is the choice", () => {
    const bare = { crossOriginIsolated: false };
    expect(chosen(probe(bare)).said).toMatch(/warning: The CPU runs one thread.*Embedder-Policy/);
    expect(chosen(probe({ ...bare, adapter: gpu() })).said).toMatch(/info: The CPU runs one thr/);
  });
});

describe("with wishes", () => {
  it("takes the device and dtype asked for first", () => {
    const both = probe({ adapter: gpu("shader-f16") });
    expect(chosen(both, { dtype: "fp32" }).list[0]).toBe("webgpu fp32 jspi 1");
    expect(chosen(both, { device: "wasm", dtype: "fp16" }).list[0]).toBe("wasm fp16 wasm 4");
    expect(chosen(both, { device: "wasm", threads: 1 }).list[0]).toBe("wasm int8-wasm wasm 1");
    expect(chosen(both, { device: "wasm", threads: 99 }).list[0]).toBe("wasm int8-wasm wasm 8");
  });

  it("says what the GPU lacks for the dtype asked for", () => {
    const { list, said } = chosen(probe({ adapter: gpu() }), { dtype: "q4f16" });
    expect(list[0]).toBe("webgpu int8 jspi 1");
    expect(said).toContain("q4f16 can't run on webgpu: the GPU lacks shader-f16");
  });

  it("computes in fp32 from the same weights where the GPU has no halves", () => {
    const { list, said } = chosen(probe({ adapter: gpu() }), { dtype: "fp16" });
    expect(list[0]).toBe("webgpu fp16 jspi 1");
    expect(said).not.toContain("fp16");
  });

  it("says which variants there are", () => {
    expect(chosen(probe(), { dtype: "q4" }).said).toContain(
      "There is no variant q4; there are: fp32, fp16, int8, q4f16.",
    );
  });

  it("still has the CPU behind a GPU that was asked for", () => {
    expect(chosen(probe({ adapter: gpu() }), { device: "webgpu" }).list).toEqual([
      "webgpu int8 jspi 1",
      "wasm int8-wasm wasm 4",
      "wasm int8 wasm 4",
      "wasm fp16 wasm 4",
    ]);
  });
});

it("doesn't try a variant whose weights exceed the GPU's buffers", () => {
  const large = [variant("fp32", [], 2 ** 30), variant("int8", [], 2 ** 27)];
  const small = { ...gpu(), maxBufferSize: 2 ** 26 };
  expect(chosen(probe({ adapter: gpu() }), {}, large).list[0]).toBe("webgpu int8 jspi 1");
  expect(chosen(probe({ adapter: small }), {}, large).list[0]).toBe("wasm int8 wasm 4");
});

describe("q8 and uint8", () => {
  const variants = [...VARIANTS, forTheCpu("q8"), forTheCpu("uint8")];
  const both = probe({ adapter: gpu("shader-f16") });

  it.each([both, probe()])("aren't chosen where there is something else", (device) => {
    expect(chosen(device, {}, variants).list).toEqual(chosen(device).list);
  });

  it.each(["q8", "uint8"] as const)("%s runs on the CPU where it is asked for", (dtype) => {
    const { list, said } = chosen(both, { dtype }, variants);
    expect(list[0]).toBe(`wasm ${dtype} wasm 4`);
    expect(said).toBe("");
  });

  it("can't run on a GPU that is asked for", () => {
    const { list, said } = chosen(both, { device: "webgpu", dtype: "q8" }, variants);
    expect(list[0]).toBe("webgpu int8-half jspi 1");
    expect(said).toContain("q8 can't run on webgpu: it wasn't built for that.");
  });

  it("are chosen where there is nothing else", () => {
    expect(chosen(both, {}, [forTheCpu("q8")]).list).toEqual(["wasm q8 wasm 4"]);
  });
});
