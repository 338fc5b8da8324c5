/** Loads the model, again after a cancel or with other options, and shows how far it is. */
import { load, type OnnxModel, type ProgressEvent } from "../runtime/index.ts";
import { byId } from "./dom.ts";
import type { Options } from "./options.ts";
import type { Status } from "./status.ts";
import { TEXT } from "./text.ts";

/** Models below this size start at once: about five seconds at 50 Mbit/s. */
const START_AT_ONCE = 30e6;

/** Whether to download without being asked: not much, and no wish to save data. */
export function startsAtOnce(size: number, saveData: boolean): boolean {
  return size < START_AT_ONCE && !saveData;
}

export interface LoaderHooks {
  options(): Options;
  /** About how many bytes these options download. */
  size(): number;
  loaded(model: OnnxModel): void;
  failed(error: unknown): void;
}

export class Loader {
  readonly #status: Status;
  readonly #hooks: LoaderHooks;
  readonly #start = byId("start", HTMLButtonElement);
  readonly #download = byId("download", HTMLDivElement);
  readonly #progress = byId("progress", HTMLProgressElement);
  readonly #bytes = byId("progress-bytes", HTMLSpanElement);
  #attempt: AbortController | undefined;
  #model: OnnxModel | undefined;
  /** Runs that wait for a model; they outlive failed and cancelled attempts. */
  #waiting = deferred<OnnxModel>();

  constructor(status: Status, hooks: LoaderHooks) {
    this.#status = status;
    this.#hooks = hooks;
    this.#progress.setAttribute("aria-label", TEXT.load.progress);
    this.#start.addEventListener("click", () => void this.start());
    byId("cancel", HTMLButtonElement).addEventListener("click", () => this.#cancel());
  }

  /** The model, as soon as there is one. */
  get model(): Promise<OnnxModel> {
    return this.#waiting.promise;
  }

  get current(): OnnxModel | undefined {
    return this.#model;
  }

  get busy(): boolean {
    return this.#attempt !== undefined;
  }

  /** Whether the download waits for the visitor's word. */
  get offered(): boolean {
    return !this.#start.hidden;
  }

  /** Offer the download and wait for the visitor's word. */
  offer(message = TEXT.status.waiting(this.#hooks.size())): void {
    this.#start.textContent = TEXT.load.button(this.#hooks.size());
    this.#start.hidden = false;
    this.#status.set("idle", message);
  }

  /** Load with the current options in the place of what is loaded or loading. */
  async start(): Promise<void> {
    this.#attempt?.abort();
    const attempt = new AbortController();
    this.#attempt = attempt;
    await this.#drop();
    this.#start.hidden = true;
    this.#show(0, 0);
    this.#status.set("loading", TEXT.status.starting);
    try {
      const model = await load(new URL(".", document.baseURI), {
        ...this.#hooks.options(),
        signal: attempt.signal,
        onProgress: (event) => {
          if (this.#attempt === attempt) {
            this.#onProgress(event);
          }
        },
      });
      if (attempt.signal.aborted) {
        await model.dispose();
        return;
      }
      this.#end();
      this.#model = model;
      this.#hooks.loaded(model);
      this.#waiting.resolve(model);
    } catch (error) {
      if (!attempt.signal.aborted) {
        this.#end();
        this.#hooks.failed(error);
      }
    }
  }

  #cancel(): void {
    this.#attempt?.abort();
    this.#end();
    this.offer(TEXT.status.cancelled);
    this.#start.focus();
  }

  #end(): void {
    this.#attempt = undefined;
    this.#download.hidden = true;
  }

  async #drop(): Promise<void> {
    if (this.#model) {
      const model = this.#model;
      this.#model = undefined;
      this.#waiting = deferred();
      await model.dispose();
    }
  }

  #onProgress({ status, overall }: ProgressEvent): void {
    this.#show(overall.loaded, overall.total);
    const complete = overall.total > 0 && overall.loaded >= overall.total;
    if (status !== "initiate") {
      this.#status.set("loading", complete ? TEXT.status.checking : TEXT.status.downloading);
    }
  }

  #show(loaded: number, total: number): void {
    this.#download.hidden = false;
    this.#bytes.textContent = total > 0 ? TEXT.load.bytes(loaded, total) : "";
    if (total > 0) {
      this.#progress.value = loaded / total;
    } else {
      this.#progress.removeAttribute("value");
    }
  }
}

interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
}

function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
