/** What page and worker say to each other. One worker runs one model. */
import type { ErrorData } from "./errors.ts";
import type { Manifest } from "./manifest.gen.ts";
import type { KeptModel } from "./records.ts";
import type { RawTensor } from "./tensor.ts";
import type {
  Candidate,
  NetworkOptions,
  Probe,
  ProgressEvent,
  RuntimeEvent,
  SelfTestResult,
} from "./types.ts";

export type Tensors = Record<string, RawTensor>;

export interface Requests {
  probe: { args: Record<string, never>; result: Probe };
  load: {
    args: {
      manifest: Manifest;
      base: string;
      candidate: Candidate;
      network: NetworkOptions;
      plainHost: boolean;
    };
    result: { timings: Record<string, number>; downloaded: number; total: number };
  };
  run: {
    args: { inputs: Tensors; stage: string | undefined };
    result: { outputs: Tensors; timings: Record<string, number> };
  };
  kept: { args: Record<string, never>; result: Kept };
  forget: { args: { url: string | undefined }; result: Kept };
  selfTest: { args: Record<string, never>; result: SelfTestResult[] };
}

/** What this browser keeps of the models of this origin. */
export interface Kept {
  /** Where: the private file system, the Cache API, or nowhere. */
  readonly store: "opfs" | "cache" | "none";
  /** Why it isn't the private file system. */
  readonly reason: string;
  readonly models: readonly KeptModel[];
  /** Bytes of everything, unfinished downloads too. */
  readonly bytes: number;
}

export type Verb = keyof Requests;

export interface Request<V extends Verb = Verb> {
  readonly id: number;
  readonly verb: V;
  readonly args: Requests[V]["args"];
}

export type Reply =
  | { readonly kind: "result"; readonly id: number; readonly result: unknown }
  | { readonly kind: "error"; readonly id: number; readonly error: ErrorData }
  | { readonly kind: "progress"; readonly event: ProgressEvent }
  | { readonly kind: "event"; readonly event: RuntimeEvent }
  | { readonly kind: "alive" }
  | { readonly kind: "starting" }
  | { readonly kind: "started" }
  | { readonly kind: "lost"; readonly error: ErrorData };
