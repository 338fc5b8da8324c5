/** The page's end of a worker: requests with answers, and an end to all of them when it dies. */
import { DisposedError, fromData, type OnnxsiteError, SessionError, StartError } from "./errors.ts";
import type { Reply, Requests, Verb } from "./protocol.ts";
import type { ProgressEvent, RuntimeEvent } from "./types.ts";

declare const WORKER_NAME: string;

/** Milliseconds for the runtime to start with threads; compiling it takes about one second. */
const START_TIMEOUT = 20_000;

interface Pending {
  resolve: (result: never) => void;
  reject: (error: unknown) => void;
}

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(url: string): string },
  ): { createScriptURL(url: string): unknown };
}

let policy: ReturnType<TrustedTypes["createPolicy"]> | undefined;

/** The worker's address, which lies beside this module, trusted where the page demands that. */
function workerUrl(): string {
  const { href } = new URL(WORKER_NAME, import.meta.url);
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
  policy ??= trustedTypes?.createPolicy("onnxsite", { createScriptURL: (url) => url });
  // TypeScript's own types still say string everywhere.
  return (policy?.createScriptURL(href) ?? href) as string;
}

export interface Listeners {
  onProgress: (event: ProgressEvent) => void;
  onEvent: (event: RuntimeEvent) => void;
}

export class WorkerClient {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #next = 0;
  #ended: OnnxsiteError | undefined;
  #starting: ReturnType<typeof setTimeout> | undefined;
  /** Whether it ended while the page was hidden: systems take the GPU from such pages. */
  endedHidden = false;

  constructor(listeners: Listeners) {
    const name = `onnxsite worker ${Math.random().toString(36).slice(2)}`;
    this.#worker = new Worker(workerUrl(), { type: "module", name });
    this.#worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
      if (data.kind === "progress") listeners.onProgress(data.event);
      else if (data.kind === "event") listeners.onEvent(data.event);
      else if (data.kind === "lost") this.end(fromData(data.error));
      else if (data.kind === "alive") this.#watchLife(name);
      else if (data.kind === "starting") this.#watchStart();
      else if (data.kind === "started") clearTimeout(this.#starting);
      else this.#settle(data);
    });
    this.#worker.addEventListener("error", (event) => {
      this.end(new SessionError(`The worker stopped (${event.message || "it didn't start"}).`));
    });
  }

  /** Ask the worker; rejects with what it threw, or with why it ended meanwhile. */
  request<V extends Verb>(verb: V, args: Requests[V]["args"]): Promise<Requests[V]["result"]> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve: resolve as Pending["resolve"], reject });
      this.#worker.postMessage({ id, verb, args });
    });
  }

  /** Stop the worker, which frees all its memory; every open request is rejected with `reason`. */
  end(reason: OnnxsiteError = new DisposedError()): void {
    if (this.#ended) return;
    this.#ended = reason;
    this.endedHidden = globalThis.document?.visibilityState === "hidden";
    clearTimeout(this.#starting);
    this.#worker.terminate();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** No event tells of a worker that the browser has ended, but the lock that it held comes free. */
  #watchLife(name: string): void {
    navigator.locks.request(name, () =>
      this.end(new SessionError("The browser ended the worker.")),
    );
  }

  /** A worker that waits for its threads may have no turn any more to say so itself. */
  #watchStart(): void {
    const late = `The runtime's threads didn't start in ${START_TIMEOUT / 1000} s.`;
    this.#starting = setTimeout(() => this.end(new StartError(late)), START_TIMEOUT);
  }

  #settle(reply: Extract<Reply, { kind: "result" | "error" }>): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === "result") pending?.resolve(reply.result as never);
    else pending?.reject(fromData(reply.error));
  }
}
