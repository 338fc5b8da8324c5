/** The model inside the worker: downloads, sessions, runs and self-test, on one candidate. */
import type * as ort from "onnxruntime-web";
import { SNR_CAP, snr } from "./compare.ts";
import { DeviceLostError, SessionError } from "./errors.ts";
import type { Downloads } from "./fetch.ts";
import type { Flavour, Manifest, Reference, Stage, Variant } from "./manifest.gen.ts";
import { openDevice } from "./probe.ts";
import type { Tensors } from "./protocol.ts";
import { startThreads } from "./start.ts";
import { fallback, type RawTensor, read } from "./tensor.ts";
import type { Candidate, SelfTestResult, TypedArray } from "./types.ts";

/** A stage with everything that its session is made from. */
interface Part {
  readonly stage: Stage;
  readonly graph: Uint8Array;
  readonly externalData: { path: string; data: Uint8Array }[];
  /** What is left to optimise while the session is created. */
  readonly level: "disabled" | "basic" | "all";
}

interface Open {
  readonly stage: Stage;
  readonly session: ort.InferenceSession;
}

/** What the page must know of at once. */
interface Hooks {
  onLost(error: DeviceLostError): void;
  onStart(state: "starting" | "started"): void;
}

/** One model on one device. */
export class Engine {
  readonly timings: Record<string, number> = {};
  readonly #manifest: Manifest;
  readonly #candidate: Candidate;
  readonly #downloads: Downloads;
  readonly #hooks: Hooks;
  #ort!: typeof ort;
  #stages: Open[] = [];
  /** The GPU device, for looking into from a debugger. */
  device: GPUDevice | undefined;

  constructor(manifest: Manifest, candidate: Candidate, downloads: Downloads, hooks: Hooks) {
    this.#manifest = manifest;
    this.#candidate = candidate;
    this.#downloads = downloads;
    this.#hooks = hooks;
  }

  /**
   * Download, create the sessions, and check them on the probe, which is the warm-up too.
   *
   * @throws OnnxsiteError of any kind; SessionError if the device computes wrong results.
   */
  async open(): Promise<void> {
    const started = performance.now();
    const probe = this.#manifest.references[0];
    const [runtime, parts] = await Promise.all([
      this.#startRuntime(),
      Promise.all(this.#manifest.stages.map((stage) => this.#downloadStage(stage))),
      probe && this.#downloads.file(probe.file),
    ]);
    this.#ort = runtime;
    this.timings.download = performance.now() - started;
    const creating = performance.now();
    if (this.#candidate.threads > 1) await startThreads(runtime, this.#hooks.onStart);
    if (this.#candidate.device === "webgpu") this.device = await this.#watchedDevice();
    for (const part of parts) {
      this.#stages.push({ stage: part.stage, session: await this.#create(part) });
      // The session has its own copy: these bytes can go before the next one is made.
      part.externalData.length = 0;
    }
    // Compiled by now; 14 to 27 MB.
    Object.assign(this.#ort.env.wasm, { wasmBinary: undefined });
    this.timings.create = performance.now() - creating;
    if (probe) await this.#check(probe);
  }

  /** Run the stages in order, or one alone; values flow by name, or to what is from them. */
  async run(
    inputs: Tensors,
    only?: string,
  ): Promise<{ outputs: Tensors; values: Tensors; timings: Record<string, number> }> {
    const values: Tensors = { ...inputs };
    const timings: Record<string, number> = {};
    const stages = only ? this.#stages.filter(({ stage }) => stage.name === only) : this.#stages;
    for (const { stage, session } of stages) {
      const started = performance.now();
      for (const spec of stage.inputs) {
        const value = values[spec.name] ?? values[spec.from ?? ""] ?? fallback(spec);
        if (!value) throw new SessionError(`Stage '${stage.name}' lacks its input '${spec.name}'.`);
        values[spec.name] = value;
      }
      Object.assign(values, await this.#runSession(session, stage, values));
      timings[stage.name] = performance.now() - started;
    }
    const names = only ? (stages[0]?.stage.outputs ?? []) : this.#manifest.interface.outputs;
    const outputs = Object.fromEntries(
      names.flatMap(({ name }) => (values[name] ? [[name, values[name]]] : [])),
    );
    return { outputs, values, timings };
  }

  /** Every reference on this device: what each floating-point output of the model reaches. */
  async selfTest(): Promise<SelfTestResult[]> {
    const results: SelfTestResult[] = [];
    for (const reference of this.#manifest.references) {
      results.push(...(await this.#measure(reference)));
    }
    return results;
  }

  async #check(probe: Reference): Promise<void> {
    const started = performance.now();
    const failed = (await this.#measure(probe)).find(({ passed }) => !passed);
    this.timings.selfTest = performance.now() - started;
    if (failed) {
      const reached = failed.snr <= -SNR_CAP ? "wrong values" : `${failed.snr.toFixed(1)} dB`;
      throw new SessionError(
        `A stored reference came out wrong: output '${failed.output}' reached ${reached}, ` +
          `${failed.minimum.toFixed(1)} dB are needed.`,
      );
    }
  }

  async #measure(reference: Reference): Promise<SelfTestResult[]> {
    const file = await this.#downloads.file(reference.file);
    const inputs = Object.fromEntries(
      reference.inputs.map((stored) => [stored.name, read(stored, file)]),
    );
    const { values } = await this.run(inputs);
    const parts = this.#manifest.stages.filter(({ kind }) => kind === "model");
    return parts.flatMap((stage) => {
      const expected = reference.stages.find((entry) => entry.stage === stage.name)?.outputs ?? [];
      const { minimum } = this.#variant(stage).selfTest;
      return expected.map((stored) => {
        const actual = values[stored.name];
        const reached = actual ? snr(read(stored, file), actual) : -SNR_CAP;
        return {
          reference: reference.name,
          output: stored.name,
          snr: reached,
          minimum,
          passed: reached >= minimum,
        };
      });
    });
  }

  #variant(stage: Stage): Variant {
    const wanted = stage.kind === "model" ? this.#candidate.variant : "fp32";
    const variant = stage.variants.find(({ name }) => name === wanted);
    if (!variant) throw new SessionError(`Stage '${stage.name}' has no variant ${wanted}.`);
    return variant;
  }

  async #downloadStage(stage: Stage): Promise<Part> {
    const variant = this.#variant(stage);
    // Its fused operators may have no WebGPU kernel.
    const ahead = this.#candidate.device === "wasm" ? variant.optimised : undefined;
    const { graph, weights } = ahead ?? variant;
    const [content, ...blobs] = await Promise.all([
      this.#downloads.file(graph),
      ...weights.map((blob) => this.#downloads.blob(blob)),
    ]);
    const externalData = weights.map((blob, index) => ({
      path: blob.name,
      data: blobs[index] as Uint8Array,
    }));
    return { stage, graph: content, externalData, level: ahead?.level ?? "all" };
  }

  async #startRuntime(): Promise<typeof ort> {
    const flavour = this.#flavour();
    const [wasm] = await Promise.all([
      this.#downloads.blob(flavour.wasm),
      // Verified first: a host that answers a missing script with a page says so clearly here.
      this.#downloads.file(flavour.api),
      this.#downloads.file(flavour.glue),
    ]);
    const runtime: typeof ort = await import(
      // Bundlers leave it alone: what it names is known only when the model is.
      /* webpackIgnore: true */ /* @vite-ignore */ this.#downloads.url(flavour.api)
    );
    runtime.env.logLevel = "error";
    runtime.env.wasm.numThreads = this.#candidate.threads;
    runtime.env.wasm.wasmBinary = wasm.buffer;
    runtime.env.wasm.wasmPaths = { mjs: this.#downloads.url(flavour.glue) };
    return runtime;
  }

  #flavour(): Flavour {
    const { flavours, version } = this.#manifest.runtime;
    const found = flavours.find(({ name }) => name === this.#candidate.flavour);
    if (!found) throw new SessionError(`Runtime ${version} lacks '${this.#candidate.flavour}'.`);
    return found;
  }

  async #watchedDevice(): Promise<GPUDevice> {
    const device = await openDevice();
    device.lost.then(({ reason, message }) => {
      this.#hooks.onLost(
        new DeviceLostError(`The GPU was lost (${message || reason || "no reason"}).`),
      );
    });
    return device;
  }

  async #create(part: Part): Promise<ort.InferenceSession> {
    const onGpu = part.stage.kind === "model" && this.device;
    return this.#ort.InferenceSession.create(part.graph, {
      executionProviders: onGpu ? [{ name: "webgpu", device: onGpu }] : ["wasm"],
      externalData: part.externalData,
      graphOptimizationLevel: part.level,
      logSeverityLevel: 3,
    });
  }

  async #runSession(
    session: ort.InferenceSession,
    stage: Stage,
    values: Tensors,
  ): Promise<Tensors> {
    const feeds: Record<string, ort.Tensor> = {};
    for (const { name } of stage.inputs) {
      const { dtype, data, dims } = values[name] as RawTensor;
      feeds[name] = new this.#ort.Tensor(dtype as "float32", data as Float32Array, dims);
    }
    const results = await session.run(feeds);
    const outputs: Tensors = {};
    for (const [name, tensor] of Object.entries(results)) {
      const data = (await tensor.getData()) as TypedArray;
      outputs[name] = { dtype: tensor.type as RawTensor["dtype"], dims: [...tensor.dims], data };
    }
    return outputs;
  }
}
