import { describe, expect, it } from "vitest";
import { choose } from "./choose.ts";
import type { Manifest, Variant, VariantName } from "./manifest.gen.ts";
import type { LoadOptions, Probe } from "./types.ts";

const MB = 2 ** 20;

const SIZES: Record<VariantName, number> = {
  fp32: 400 * MB,
  fp16: 200 * MB,
  int8: 100 * MB,
  q8: 100 * MB,
  uint8: 100 * MB,
  q4: 60 * MB,
  q4f16: 50 * MB,
};

function variant(dtype: VariantName, features: string[] = [], maxBufferSize = 1): Variant {
  const compute = features.length > 0 ? "float16" : "float32";
  const devices = features.length > 0 ? ["webgpu"] : ["webgpu", "wasm"];
  const requires = { features, maxBufferSize, maxStorageBufferBindingSize: 1 };
  const name = `${dtype}${features.length > 0 ? "-half" : ""}`;
  const memory = { size: SIZES[dtype], peakMemory: 3 * SIZES[dtype] };
  return { name, dtype, compute, devices, requires, ...memory } as unknown as Variant;
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

describe("a model in parts", () => {
  const parts = (...models: Variant[][]) =>
    ({ stages: models.map((variants) => ({ kind: "model", variants })) }) as unknown as Manifest;

  it("runs as what all of them have, and takes the memory of all", () => {
    const both = parts([variant("fp32"), variant("int8")], [variant("int8")]);
    const { candidates } = choose(both, probe(), {});
    expect(candidates.map((candidate) => candidate.variant)).toEqual(["int8"]);
    const little = probe({ memory: 1000 * MB });
    expect(choose(both, little, {}).short).toEqual({ needed: 600 * MB, available: 500 * MB });
  });

  it("needs the device that its most demanding part needs", () => {
    const wide = parts([variant("fp32")], [variant("fp32", [], 2 ** 40)]);
    const { candidates } = choose(wide, probe({ adapter: gpu() }), {});
    expect(candidates.map((candidate) => candidate.device)).toEqual(["wasm"]);
  });
});

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
    memory: null,
    free: null,
    saveData: false,
    ...changes,
  };
}

const chosen = (device: Probe, options: LoadOptions = {}, variants = VARIANTS) => {
  const { candidates, events, short } = choose(manifest(variants), device, options);
  return {
    short,
    why: Object.values(candidates[0]?.reasons ?? {}),
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

describe("little memory", () => {
  const variants = [variant("fp32"), variant("int8"), variant("q4")];

  it.each([
    ["8 GiB take the best", 8192, "wasm int8 wasm 4"],
    ["1 GiB has room, and one thread", 1024, "wasm int8 wasm 1"],
    ["half a GiB takes what fits", 512, "wasm q4 wasm 1"],
  ])("%s", (_name, megabytes, first) => {
    expect(chosen(probe({ memory: megabytes * MB }), {}, variants).list[0]).toBe(first);
  });

  it("says what is left out, with figures", () => {
    const { said } = chosen(probe({ memory: 512 * MB }), {}, variants);
    expect(said).toContain(
      "info: int8 isn't used: loading it takes about 300 MiB, 256 MiB are available.",
    );
  });

  it("that nothing fits in is told with both figures", () => {
    const { list, short } = chosen(probe({ memory: 256 * MB }), {}, variants);
    expect(list).toEqual([]);
    expect(short).toEqual({ needed: 180 * MB, available: 128 * MB });
  });

  it("doesn't keep from trying what was asked for, up to what wasm32 addresses", () => {
    const low = probe({ memory: 256 * MB });
    expect(chosen(low, { dtype: "fp32" }, variants).list[0]).toBe("wasm fp32 wasm 1");
    const huge = [{ ...variant("fp32"), peakMemory: 2 ** 33 } as Variant];
    expect(chosen(probe(), { dtype: "fp32" }, huge).short?.needed).toBe(2 ** 33);
  });
});

it("takes the smallest download where the browser saves data", () => {
  const variants = [variant("fp32"), variant("int8"), variant("q4")];
  const saving = probe({ saveData: true });
  expect(chosen(saving, {}, variants).list[0]).toBe("wasm q4 wasm 4");
  expect(chosen(saving, { dtype: "fp32" }, variants).list[0]).toBe("wasm fp32 wasm 4");
});

it("says when the browser can't keep what it downloads", () => {
  expect(chosen(probe({ free: 50 * MB })).said).toContain("100 MiB exceed the 50 MiB");
  expect(chosen(probe({ free: 500 * MB })).said).not.toContain("exceed");
});

it.each([
  [
    "no GPU",
    probe(),
    {},
    [
      "WASM: this browser has no WebGPU.",
      "int8 comes first for WASM among the variants that fit here.",
      "4 threads for 8 cores: more than 4 gain little.",
      "The smallest build of the runtime is loaded, since the GPU isn't used.",
    ],
  ],
  [
    "a GPU",
    probe({ adapter: gpu(), jspi: false }),
    {},
    [
      "WebGPU: this browser offers GPU.",
      "int8 comes first for WebGPU among the variants that fit here.",
      "One thread: the GPU does the work.",
      "The larger build for WebGPU is loaded, since this browser lacks JSPI.",
    ],
  ],
  [
    "everything asked for",
    probe({ adapter: gpu() }),
    { device: "wasm", dtype: "fp16", threads: 2 } as LoadOptions,
    [
      "WASM was asked for.",
      "fp16 was asked for.",
      "2 of 2 threads that were asked for.",
      "The smallest build of the runtime is loaded, since the GPU isn't used.",
    ],
  ],
  [
    "a phone that saves data, on a plain host",
    probe({ adapter: gpu(), saveData: true, crossOriginIsolated: false }),
    { device: "wasm" } as LoadOptions,
    [
      "WASM was asked for.",
      "int8 is the smallest download: the browser asks to save data.",
      "One thread: the page isn't isolated by its host.",
      "The smallest build of the runtime is loaded, since the GPU isn't used.",
    ],
  ],
] as const)("gives a sentence for every decision: %s", (_name, device, options, wanted) => {
  expect(chosen(device, options).why).toEqual(wanted);
});
