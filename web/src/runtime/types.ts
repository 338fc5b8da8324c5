/** The public types of the runtime, beside those of the manifest. */
import type { Device, DType, FlavourName, VariantName } from "./manifest.gen.ts";

/** Element buffers that tensors come in. float16 is handed out as Float32Array. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/**
 * What `run` takes: any array of numbers; it is converted to the input's dtype and range-checked. An
 * input with a vocabulary takes words as well; one that isn't in there is -1.
 */
export interface TensorLike {
  readonly data:
    | TypedArray
    | readonly number[]
    | readonly bigint[]
    | readonly boolean[]
    | readonly string[];
  readonly dims: readonly number[];
}

/** What `run` gives. `dtype` is the model's; the data of float16 are widened to Float32Array. */
export interface Tensor {
  readonly dtype: DType;
  readonly dims: number[];
  readonly data: TypedArray;
  /** The words that the data are places of, for an output with a vocabulary; "" for none. */
  readonly words?: readonly string[];
}

/** What a model takes, if nothing is known of it; a site's `model.d.ts` says more. */
export type AnyInputs = Record<string, TensorLike>;

/** What a model gives, if nothing is known of it. */
export type AnyOutputs = Record<string, Tensor>;

/** Holds for every interface whose properties are all of one type: those need no index signature. */
export type Each<Names, Type> = { readonly [Name in keyof Names]: Type };

export interface LoadOptions {
  /** Where to run: "auto" takes WebGPU if it is there and computes right, else WASM. */
  device?: Device | "auto";
  /** Which variant: "auto" takes the smallest that suits the device. */
  dtype?: VariantName | "auto";
  /** Threads on WASM: "auto" is the number of cores, at most 4, where the page is isolated. */
  threads?: number | "auto";
  /** How patient downloads are; the defaults suit visitors. */
  network?: NetworkOptions;
  onProgress?: (event: ProgressEvent) => void;
  signal?: AbortSignal;
}

export interface NetworkOptions {
  /** Tries of one file after the first one without a new byte. 4. */
  retries?: number;
  /** Milliseconds before the second try; each further pause is twice as long. 400. */
  pause?: number;
  /** Milliseconds without a byte after which a request is given up. 20,000. */
  stall?: number;
}

/** The statuses are those of transformers.js; sizes are bytes. */
export interface ProgressEvent {
  readonly status: "initiate" | "download" | "progress" | "done" | "ready";
  readonly file: string;
  readonly loaded: number;
  readonly total: number;
  readonly overall: { readonly loaded: number; readonly total: number };
}

/** Something that didn't go the best way, and why, in a sentence for visitors. */
export interface RuntimeEvent {
  readonly level: "info" | "warning";
  readonly step: string;
  readonly message: string;
}

/** What a model ended up running on. */
export interface Info {
  readonly device: Device;
  readonly dtype: VariantName;
  /** Name of the variant in the manifest: one of the forms of `dtype`. */
  readonly variant: string;
  readonly threads: number;
  readonly flavour: FlavourName;
  readonly runtimeVersion: string;
  readonly adapter?: string;
  readonly crossOriginIsolated: boolean;
  /** Why it is this device, dtype, number of threads and build of the runtime. */
  readonly reasons: Reasons;
  readonly events: readonly RuntimeEvent[];
  readonly bytes: { readonly downloaded: number; readonly total: number };
  /** Milliseconds by step: download, create, selfTest, and `load` for all of it. */
  readonly timings: Readonly<Record<string, number>>;
}

export interface RunOptions {
  signal?: AbortSignal;
  /** Run only the stage of this name, on its own inputs. */
  stage?: string;
}

/** Options of a run of one stage alone. */
export interface StageRunOptions extends RunOptions {
  stage: string;
}

export interface RunResult<Outputs = AnyOutputs> {
  readonly outputs: Outputs;
  /** Milliseconds by stage. */
  readonly timings: Record<string, number>;
  readonly total: number;
  readonly info: Info;
}

export interface SelfTestResult {
  readonly reference: string;
  readonly output: string;
  /** Signal-to-noise ratio in dB against fp32 on the CPU, 200 for equal. */
  readonly snr: number;
  readonly minimum: number;
  readonly passed: boolean;
}

export interface SelfTestReport {
  readonly device: Device;
  readonly dtype: VariantName;
  readonly passed: boolean;
  readonly results: readonly SelfTestResult[];
}

/** What the device offers, found out before anything is downloaded. */
export interface Probe {
  readonly adapter: {
    readonly description: string;
    readonly features: readonly string[];
    readonly maxBufferSize: number;
    readonly maxStorageBufferBindingSize: number;
  } | null;
  /** Why there is no adapter. */
  readonly reason: string;
  readonly jspi: boolean;
  readonly cores: number;
  readonly crossOriginIsolated: boolean;
  /** Bytes of the device, as coarse as browsers tell; null where they don't. */
  readonly memory: number | null;
  /** Bytes that the origin may still store; null where the browser doesn't tell. */
  readonly free: number | null;
  /** Whether the visitor asked the browser to save data. */
  readonly saveData: boolean;
}

/** One sentence for each decision. */
export interface Reasons {
  readonly device: string;
  readonly dtype: string;
  readonly threads: string;
  readonly flavour: string;
}

/** One way of running a model, ready to be tried. */
export interface Candidate {
  readonly device: Device;
  readonly dtype: VariantName;
  /** Name of the variant in the manifest: one of the forms of `dtype`. */
  readonly variant: string;
  readonly flavour: FlavourName;
  readonly threads: number;
  readonly reasons: Reasons;
}
