import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Manifest } from "./manifest.gen.ts";
import { OnnxModel } from "./model.ts";
import type { Reply, Request } from "./protocol.ts";
import type { LoadOptions } from "./types.ts";

/** How workers answer, one after the other: null is success. Real ones are tried in browsers. */
let script: (string | null)[];
let started: string[];
let ended: number;

const variant = (dtype: string) => ({
  name: dtype,
  dtype,
  devices: ["webgpu", "wasm"],
  size: 1,
  peakMemory: 2 ** 20,
  requires: { features: [], maxBufferSize: 1, maxStorageBufferBindingSize: 1 },
});
const MANIFEST = {
  id: "net",
  interface: { inputs: [{ name: "x", dtype: "float32", shape: [1] }], outputs: [] },
  stages: [{ name: "model", kind: "model", variants: [variant("fp32"), variant("int8")] }],
  runtime: { version: "1.2.3" },
} as unknown as Manifest;

const PROBE = {
  adapter: null,
  reason: "none",
  jspi: true,
  cores: 2,
  crossOriginIsolated: true,
  memory: null as number | null,
  free: null,
  saveData: false,
};
let probed: typeof PROBE;
/** The last worker that was started. */
let worker: FakeWorker;

class FakeWorker extends EventTarget {
  constructor() {
    super();
    worker = this;
  }

  lose(): void {
    const error = { code: "DeviceLostError", message: "The GPU went.", advice: "", url: undefined };
    this.dispatchEvent(new MessageEvent("message", { data: { kind: "lost", error } }));
  }

  postMessage({ id, verb, args }: Request): void {
    let fault: string | null | undefined = null;
    if (verb === "load") {
      const { device, dtype } = (args as Request<"load">["args"]).candidate;
      started.push(`${device} ${dtype}`);
      fault = script.shift();
    } else if (verb === "run") fault = script.shift();
    const result = {
      probe: probed,
      load: { timings: {}, downloaded: 1, total: 1 },
      run: { outputs: {}, timings: {} },
      selfTest: [],
      kept: null,
      forget: null,
    }[verb];
    const error = { code: fault ?? "", message: `${fault} happened.`, advice: "", url: undefined };
    const reply: Reply = fault ? { kind: "error", id, error } : { kind: "result", id, result };
    queueMicrotask(() => this.dispatchEvent(new MessageEvent("message", { data: reply })));
  }

  terminate(): void {
    ended++;
  }
}

async function open(faults: (string | null)[], options: LoadOptions = {}): Promise<OnnxModel> {
  script = faults;
  const model = new OnnxModel(MANIFEST, "https://host/models/net/manifest.json", options);
  await model.open();
  return model;
}

const said = (model: OnnxModel, level: string) =>
  model.info.events.filter((event) => event.level === level && event.step !== "device").length;

beforeEach(() => {
  started = [];
  ended = 0;
  probed = PROBE;
  vi.stubGlobal("Worker", FakeWorker);
  vi.stubGlobal("WORKER_NAME", "worker.js");
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.spyOn(console, "info").mockImplementation(() => {});
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe("on the CPU", () => {
  it("tries a refused session once more, in a fresh worker", async () => {
    const model = await open(["SessionError", null]);
    expect(started).toEqual(["wasm int8", "wasm int8"]);
    expect(ended).toBe(1);
    expect([said(model, "info"), said(model, "warning")]).toEqual([1, 0]);
  });

  it("goes on to the next variant after that", async () => {
    const model = await open(["SessionError", "SessionError", null]);
    expect(started).toEqual(["wasm int8", "wasm int8", "wasm fp32"]);
    expect(model.info.dtype).toBe("fp32");
    expect(said(model, "warning")).toBe(1);
  });

  it("goes on with one thread where threads don't start twice", async () => {
    const model = await open(["StartError", "StartError", null]);
    expect(started).toEqual(["wasm int8", "wasm int8", "wasm int8"]);
    expect(model.info.threads).toBe(1);
    expect([said(model, "info"), said(model, "warning")]).toEqual([1, 1]);
  });

  it("doesn't try again what memory lacked for", async () => {
    const model = await open(["MemoryError", null]);
    expect(started).toEqual(["wasm int8", "wasm fp32"]);
    expect(model.info.dtype).toBe("fp32");
  });

  it("ends with the last reason when nothing is left", async () => {
    await expect(open(["MemoryError", "SessionError", "SessionError"])).rejects.toThrow(
      /No variant.*SessionError happened/,
    );
    expect(ended).toBe(3);
  });

  it.each(["FetchError", "IntegrityError"])("leaves a %s to the caller", async (code) => {
    await expect(open([code])).rejects.toMatchObject({ code });
    expect(started).toHaveLength(1);
  });
});

describe("a run", () => {
  const inputs = { x: { data: [1], dims: [1] } };

  it("that fails is run again on the next variant, and says so", async () => {
    const model = await open([null, "DeviceLostError", null, null]);
    const changed = vi.fn();
    model.onChange(changed);
    const { info } = await model.run(inputs);
    expect(info.dtype).toBe("fp32");
    expect(changed).toHaveBeenCalledOnce();
    expect(said(model, "warning")).toBe(1);
  });

  it("leaves a wrong input to the caller", async () => {
    const model = await open([null]);
    await expect(model.run({ y: inputs.x })).rejects.toThrow("There is no input 'y'.");
    await expect(model.run({})).rejects.toThrow("Input 'x' is missing.");
    await expect(model.run(inputs, { stage: "post" })).rejects.toMatchObject({
      advice: "Stages: model.",
    });
  });

  it("stops waiting when it is told to", async () => {
    const model = await open([null, null]);
    const control = new AbortController();
    const running = model.run(inputs, { signal: control.signal });
    control.abort();
    await expect(running).rejects.toMatchObject({ name: "AbortError" });
  });

  it("is refused after disposal, which ends the worker", async () => {
    const model = await open([null]);
    await model.dispose();
    expect(ended).toBe(1);
    await expect(model.run(inputs)).rejects.toMatchObject({ code: "DisposedError" });
  });
});

describe("memory", () => {
  it("that is short is told before anything is downloaded", async () => {
    probed = { ...PROBE, memory: 2 ** 20 };
    const error = await open([]).catch((thrown) => thrown);
    expect(error.code).toBe("MemoryError");
    expect(error.message).toContain("about 1 MiB of memory; 1 MiB are available");
    expect(started).toEqual([]);
  });

  it("isn't held against who asks for a dtype", async () => {
    probed = { ...PROBE, memory: 2 ** 20 };
    const model = await open([], { dtype: "fp32" });
    expect(model.info.dtype).toBe("fp32");
  });
});

describe("a model that is lost", () => {
  const x = { x: { data: [1], dims: [1] } };

  it.each([
    ["while the page is hidden is opened again as it was", "hidden", "wasm int8"],
    ["while the page is seen steps down", "visible", "wasm fp32"],
  ])("%s", async (_name, visibilityState, wanted) => {
    const model = await open([]);
    vi.stubGlobal("document", { visibilityState });
    worker.lose();
    await model.run(x);
    expect(started).toEqual(["wasm int8", wanted]);
    vi.unstubAllGlobals();
  });

  it("again, before it ran, steps down", async () => {
    const model = await open([]);
    vi.stubGlobal("document", { visibilityState: "hidden" });
    worker.lose();
    model.onChange(() => started.length === 2 && worker.lose());
    await model.run(x);
    expect(started).toEqual(["wasm int8", "wasm int8", "wasm fp32"]);
  });
});

it("the last device that fails in the middle is opened once more, then left to the next call", async () => {
  const x = { x: { data: [1], dims: [1] } };
  const single = { ...MANIFEST, stages: [{ ...MANIFEST.stages[0], variants: [variant("fp32")] }] };
  script = [null, "MemoryError", null, null, "MemoryError", null, "MemoryError", null, null];
  const alone = new OnnxModel(single as unknown as Manifest, "https://host/m.json", {});
  await alone.open();
  await alone.run(x);
  expect(started).toEqual(["wasm fp32", "wasm fp32"]);
  await expect(alone.run(x)).rejects.toMatchObject({ code: "MemoryError" });
  expect(started).toHaveLength(3);
  await alone.run(x);
  expect(started).toHaveLength(4);
});
