/** A loaded model: what callers hold. Keeps running when a device fails, and says so. */
import { choose, mebibytes } from "./choose.ts";
import { WorkerClient } from "./client.ts";
import {
  DisposedError,
  InputError,
  MemoryError,
  OnnxsiteError,
  UnsuitableError,
} from "./errors.ts";
import type { Manifest, TensorSpec } from "./manifest.gen.ts";
import type { Tensors } from "./protocol.ts";
import { decode, encode } from "./tensor.ts";
import type {
  AnyInputs,
  AnyOutputs,
  Candidate,
  Each,
  Info,
  LoadOptions,
  RunOptions,
  RunResult,
  RuntimeEvent,
  SelfTestReport,
  StageRunOptions,
  Tensor,
  TensorLike,
} from "./types.ts";

/** Errors of the caller or of the network: another device would meet them as well. */
const NOT_THE_DEVICE = new Set(["InputError", "FetchError", "IntegrityError", "DisposedError"]);

/**
 * Errors that a fresh worker may be without. There is no device below WASM, so a second look is
 * worth it. WebKitGTK refuses a sound graph under load, about once in 200 loads.
 */
const WORTH_ANOTHER_LOOK = new Set(["SessionError", "StartError"]);

/** Names for visitors. */
const DEVICES = { webgpu: "the GPU (WebGPU)", wasm: "the CPU (WASM)" } as const;

/** `Inputs` and `Outputs` are the model's own, as its `model.d.ts` has them. */
export class OnnxModel<
  Inputs extends Each<Inputs, TensorLike> = AnyInputs,
  Outputs extends Each<Outputs, Tensor> = AnyOutputs,
> {
  readonly manifest: Manifest;
  readonly #base: string;
  readonly #options: LoadOptions;
  readonly #plainHost: boolean;
  readonly #events: RuntimeEvent[] = [];
  readonly #callbacks = new Set<(info: Info) => void>();
  #candidates: Candidate[] = [];
  #client: WorkerClient | undefined;
  #adapter: string | undefined;
  #loading: Promise<Info> | undefined;
  #info: Info | undefined;
  #current: Candidate | undefined;
  /** Whether it was opened again on the same device, and has not run there yet. */
  #reopened = false;
  #disposed = false;

  /** Use `load` instead. */
  constructor(manifest: Manifest, base: string, options: LoadOptions, plainHost = false) {
    this.manifest = manifest;
    this.#plainHost = plainHost;
    this.#base = base;
    this.#options = options;
  }

  /** What it runs on now; `onChange` tells when that changes. */
  get info(): Info {
    if (!this.#info) throw new DisposedError();
    return this.#info;
  }

  /** Be told when the model steps down to another device; returns how to stop that. */
  onChange(callback: (info: Info) => void): () => void {
    this.#callbacks.add(callback);
    return () => this.#callbacks.delete(callback);
  }

  /** Choose, download and open. Used by `load`. */
  async open(): Promise<void> {
    const client = this.#newClient();
    this.#client = client;
    const probe = await client.request("probe", {});
    this.#adapter = probe.adapter?.description;
    const { candidates, events, short } = choose(this.manifest, probe, this.#options);
    this.#candidates = [...candidates];
    this.#events.push(...events);
    if (short) {
      throw new MemoryError(
        `Loading this model takes about ${mebibytes(short.needed)} of memory; ` +
          `${mebibytes(short.available)} are available on this device.`,
      );
    }
    await this.#openNext(client);
  }

  /** Run one stage alone, on its own inputs. */
  run(inputs: AnyInputs, options: StageRunOptions): Promise<RunResult>;
  /**
   * Run once. Calls made at the same time are queued. If the device fails in the middle, the model
   * is opened on the next one and the call is run again there.
   *
   * @throws InputError for inputs that don't fit, OnnxsiteError of other kinds if no device is left.
   */
  run(inputs: Inputs, options?: RunOptions): Promise<RunResult<Outputs>>;
  async run(inputs: AnyInputs, { signal, stage }: RunOptions = {}): Promise<RunResult> {
    signal?.throwIfAborted();
    const encoded = this.#encode(inputs, stage);
    for (;;) {
      const client = await this.#ready();
      const started = performance.now();
      try {
        const { outputs, timings } = await abortable(
          client.request("run", { inputs: encoded, stage }),
          signal,
        );
        this.#reopened = false;
        const specs = new Map(this.#sides(stage).outputs.map((spec) => [spec.name, spec]));
        return {
          outputs: Object.fromEntries(
            Object.entries(outputs).map(([name, raw]) => [name, decode(raw, specs.get(name))]),
          ),
          timings,
          total: performance.now() - started,
          info: this.info,
        };
      } catch (error) {
        if (!(error instanceof OnnxsiteError) || NOT_THE_DEVICE.has(error.code)) throw error;
        await this.#stepDown(client, error);
      }
    }
  }

  /** Compare every stored reference with what this device computes. */
  async selfTest(): Promise<SelfTestReport> {
    const client = await this.#ready();
    const results = await client.request("selfTest", {});
    const { device, dtype } = this.info;
    return { device, dtype, passed: results.every(({ passed }) => passed), results };
  }

  /** End the worker: all of the model's memory is given back. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    this.#client?.end();
    this.#callbacks.clear();
  }

  async #ready(): Promise<WorkerClient> {
    if (!this.#client && !this.#disposed) this.#loading ??= this.#openNext();
    await this.#loading;
    if (this.#disposed || !this.#client) throw new DisposedError();
    return this.#client;
  }

  #newClient(): WorkerClient {
    return new WorkerClient({
      onProgress: (event) => this.#options.onProgress?.(event),
      onEvent: (event) => this.#events.push(event),
    });
  }

  /** Try candidate after candidate, each in a fresh worker: wasm memory never shrinks. */
  async #openNext(first?: WorkerClient, cause?: OnnxsiteError): Promise<Info> {
    let client = first;
    let failure = cause;
    let again = true;
    for (
      let candidate = this.#candidates.shift();
      candidate;
      candidate = this.#candidates.shift()
    ) {
      if (this.#disposed) throw new DisposedError();
      client ??= this.#newClient();
      this.#client = client;
      try {
        return await this.#openOn(client, candidate);
      } catch (error) {
        client.end();
        client = undefined;
        if (!(error instanceof OnnxsiteError) || NOT_THE_DEVICE.has(error.code)) throw error;
        failure = error;
        if (candidate.device === "wasm" && WORTH_ANOTHER_LOOK.has(error.code)) {
          if (again) {
            again = false;
            this.#candidates.unshift(candidate);
            this.#say("info", "retry", `The CPU (WASM) is tried once more: ${error.message}`);
            continue;
          }
          if (error.code === "StartError" && candidate.threads > 1) {
            this.#candidates.unshift({ ...candidate, threads: 1 });
            this.#say("warning", "threads", `One thread is used: ${error.message}`);
            continue;
          }
        }
        this.#say(
          "warning",
          "fallback",
          `${candidate.dtype} on ${DEVICES[candidate.device]} isn't used: ${error.message}`,
        );
      }
    }
    client?.end();
    const why = failure ? ` The last one failed: ${failure.message}` : "";
    throw new UnsuitableError(`No variant of this model can run here.${why}`);
  }

  async #openOn(client: WorkerClient, candidate: Candidate): Promise<Info> {
    const started = performance.now();
    const { timings, downloaded, total } = await client.request("load", {
      manifest: this.manifest,
      base: this.#base,
      candidate,
      network: this.#options.network ?? {},
      plainHost: this.#plainHost,
    });
    this.#current = candidate;
    this.#info = {
      ...candidate,
      runtimeVersion: this.manifest.runtime.version,
      ...(candidate.device === "webgpu" && this.#adapter ? { adapter: this.#adapter } : {}),
      crossOriginIsolated: globalThis.crossOriginIsolated === true,
      events: this.#events,
      bytes: { downloaded, total },
      timings: { ...timings, load: performance.now() - started },
    };
    const overall = { loaded: total, total };
    this.#options.onProgress?.({ status: "ready", file: "", loaded: 0, total: 0, overall });
    return this.#info;
  }

  /** Leave a device that failed in the middle; calls that wait meanwhile use the next one. */
  async #stepDown(failed: WorkerClient, error: OnnxsiteError): Promise<void> {
    if (this.#client === failed && !this.#disposed) {
      const { device } = this.info;
      // Taken from a page in the background it isn't broken; and where nothing less is left, a fresh
      // worker has all of its memory again.
      const again = !this.#reopened && (failed.endedHidden || this.#candidates.length === 0);
      const last = this.#candidates.length === 0;
      failed.end(error);
      this.#client = undefined;
      this.#loading = undefined;
      if (this.#current && (again || last)) this.#candidates.unshift(this.#current);
      this.#reopened = again;
      if (again) {
        this.#say("info", "retry", `Opened again on ${DEVICES[device]}: ${error.message}`);
      } else if (last) {
        // Too much for a fresh worker as well. The next call may ask for less, and finds another.
        throw error;
      } else {
        const failure = `${DEVICES[device]} failed in the middle: ${error.message}`;
        this.#say("warning", "fallback", failure);
      }
      this.#loading = this.#openNext(undefined, error);
      const info = await this.#loading;
      for (const callback of this.#callbacks) callback(info);
    }
    await this.#loading;
  }

  #say(level: RuntimeEvent["level"], step: string, message: string): void {
    this.#events.push({ level, step, message });
    console[level === "info" ? "info" : "warn"](`onnxsite, ${this.manifest.id}: ${message}`);
  }

  #encode(inputs: Record<string, TensorLike>, only?: string): Tensors {
    const specs = this.#sides(only).inputs;
    const extents = new Map<string, number>();
    const known = specs.map(({ name }) => name);
    for (const name of Object.keys(inputs)) {
      if (!known.includes(name)) {
        throw new InputError(`There is no input '${name}'.`, `Inputs: ${known.join(", ")}.`);
      }
    }
    const encoded: Tensors = {};
    for (const spec of specs) {
      const given = inputs[spec.name];
      if (given) encoded[spec.name] = encode(spec, given, extents);
      else if (!spec.default && spec.from === undefined) {
        throw new InputError(`Input '${spec.name}' is missing.`, `Inputs: ${known.join(", ")}.`);
      }
    }
    return encoded;
  }

  /** What is run: the whole model, or the stage of a name. */
  #sides(only?: string): { inputs: readonly TensorSpec[]; outputs: readonly TensorSpec[] } {
    if (!only) return this.manifest.interface;
    const stage = this.manifest.stages.find(({ name }) => name === only);
    if (!stage) {
      const names = this.manifest.stages.map(({ name }) => name).join(", ");
      throw new InputError(`There is no stage '${only}'.`, `Stages: ${names}.`);
    }
    return stage;
  }
}

/** Give up waiting when `signal` says so; what the worker still computes is thrown away. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort(); // no event comes any more
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
