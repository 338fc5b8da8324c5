/** The page of one model: loads it, gives inputs to its task's controls, and shows how it went. */
import type { Info, Manifest, OnnxModel, RunResult } from "../runtime/index.ts";
import { taskOf } from "../tasks/index.ts";
import { InputFault, type Page, type Turn, type Work } from "../tasks/task.ts";
import { hideBadge, showBadge, showFallbacks } from "./badge.ts";
import { startCode } from "./code.ts";
import { byId, h } from "./dom.ts";
import { describe, FaultBox } from "./fault.ts";
import { Isolation } from "./isolation.ts";
import { Loader, startsAtOnce } from "./loader.ts";
import { Offline } from "./offline.ts";
import {
  downloadSize,
  type Options,
  offeredBy,
  parseOptions,
  smallestSize,
  withOption,
} from "./options.ts";
import { selfTestTable } from "./self-test.ts";
import { Status } from "./status.ts";
import { TEXT } from "./text.ts";

class ModelPage implements Page {
  readonly manifest: Manifest;
  readonly root: URL;
  readonly input = byId("input", HTMLDivElement);
  readonly result = byId("result", HTMLDivElement);
  readonly drop = byId("try", HTMLElement);
  readonly #status = new Status();
  readonly #faults = new FaultBox();
  readonly #loader: Loader;
  readonly #isolation: Isolation;
  readonly #offline: Offline;
  readonly #notes: string[];
  readonly #check = byId("self-test", HTMLButtonElement);
  readonly #checked = byId("self-test-result", HTMLDivElement);
  #options: Options;
  #turn: AbortController | undefined;
  /** The last input, to be run again on another device or after a fault. */
  #last: Work | undefined;

  constructor(manifest: Manifest, isolation: Isolation) {
    this.manifest = manifest;
    this.root = new URL(manifest.root, document.baseURI);
    this.#isolation = isolation;
    this.#offline = new Offline(manifest, this.root);
    const offered = offeredBy(manifest);
    const { options, notes } = parseOptions(new URLSearchParams(location.search), offered);
    this.#options = options;
    this.#notes = notes;
    this.#loader = new Loader(this.#status, {
      options: () => this.#options,
      size: () => downloadSize(manifest, this.#options),
      loaded: (model) => this.#loaded(model),
      failed: (error) => this.#fail(error, TEXT.error.load.title, () => this.#restart()),
    });
    const devices = offered.devices.map((device) => [device, TEXT.device(device)] as const);
    const dtypes = [...offered.dtypes].map(
      ([dtype, size]) => [dtype, TEXT.dtype.named(dtype, size)] as const,
    );
    this.#fillChoice("device", [["auto", TEXT.device("auto")], ...devices]);
    this.#fillChoice("dtype", [["auto", TEXT.dtype.auto], ...dtypes]);
    this.#check.addEventListener("click", () => void this.#perform((turn) => this.#selfTest(turn)));
    showFallbacks(this.#notes);
  }

  start(): void {
    taskOf(this.manifest.task)(this);
    const connection = (navigator as { connection?: { saveData?: boolean } }).connection;
    if (startsAtOnce(smallestSize(this.manifest), connection?.saveData ?? false)) {
      void this.#loader.start();
    } else {
      this.#loader.offer();
    }
  }

  take(work: Work): Promise<boolean> {
    this.#last = work;
    return this.#perform(work);
  }

  fault(error: unknown): void {
    this.#fail(error, TEXT.error.unexpected.title);
  }

  async #perform(work: Work): Promise<boolean> {
    this.#turn?.abort();
    const turn = new AbortController();
    this.#turn = turn;
    this.#faults.hide();
    const { signal } = turn;
    try {
      const words = await work({
        signal,
        run: (inputs, live = false) => this.#run(inputs, live, signal),
        say: (message) => this.#say(message),
      });
      if (!signal.aborted) {
        this.#conclude(words);
      }
      return !signal.aborted;
    } catch (error) {
      if (!signal.aborted) {
        const retry = error instanceof InputFault ? undefined : () => void this.#perform(work);
        this.#fail(error, TEXT.error.run.title, retry);
      }
      return false;
    }
  }

  async #run(
    inputs: Parameters<Turn["run"]>[0],
    live: boolean,
    signal: AbortSignal,
  ): Promise<RunResult> {
    if (this.#loader.offered) {
      this.#status.set("idle", TEXT.status.pending(downloadSize(this.manifest, this.#options)));
    } else if (!this.#loader.current && !this.#loader.busy) {
      // An earlier attempt failed: a new input is a wish to try again.
      void this.#loader.start();
    }
    const model = await this.#loader.model;
    signal.throwIfAborted();
    this.#status.set("running", live ? TEXT.camera.running : TEXT.status.running);
    const result = await model.run(inputs, { signal });
    signal.throwIfAborted();
    showBadge(result.info, result.total);
    showFallbacks(this.#notes, result.info);
    if (!live) {
      this.#status.set("ready", TEXT.status.done(result.total));
    }
    return result;
  }

  async #selfTest(turn: Turn): Promise<string> {
    const model = await this.#loader.model;
    this.#status.set("running", TEXT.status.testing);
    const report = await model.selfTest();
    turn.signal.throwIfAborted();
    this.#checked.replaceChildren(...selfTestTable(report));
    this.#checked.hidden = false;
    return report.passed ? TEXT.selfTest.allPassed : TEXT.selfTest.someFailed;
  }

  #loaded(model: OnnxModel): void {
    this.#status.set("ready", TEXT.status.ready);
    this.#check.disabled = false;
    const show = (info: Info) => {
      showBadge(info);
      showFallbacks(this.#notes, info);
      this.#isolation.offer(info);
      void this.#offline.show(info);
    };
    show(model.info);
    model.onChange(show);
  }

  /** Load again, and run the last input on what comes of it. */
  #restart(): void {
    this.#faults.hide();
    this.#check.disabled = true;
    this.#checked.hidden = true;
    hideBadge();
    showFallbacks(this.#notes);
    void this.#loader.start();
    if (this.#last) {
      void this.take(this.#last);
    }
  }

  #fillChoice(name: "device" | "dtype", items: readonly (readonly [string, string])[]): void {
    const select = byId(name, HTMLSelectElement);
    select.replaceChildren(...items.map(([value, label]) => h("option", { value }, label)));
    select.value = this.#options[name];
    select.disabled = false;
    select.addEventListener("change", () => {
      this.#options = { ...this.#options, [name]: select.value };
      this.#notes.length = 0;
      history.replaceState(null, "", withOption(new URL(location.href), name, select.value));
      if (this.#loader.offered) {
        // A choice isn't yet the word to download.
        this.#loader.offer();
      } else {
        this.#restart();
      }
    });
  }

  /** While the model is on its way, the status tells of that. */
  #say(words: string): void {
    if (this.#loader.current) {
      this.#status.set("running", words);
    }
  }

  #conclude(words: string | undefined): void {
    if (this.#loader.current && (words !== undefined || this.#status.state === "running")) {
      this.#status.set("ready", words ?? TEXT.status.ready);
    }
  }

  #fail(error: unknown, title: string, retry?: () => void): void {
    this.#faults.show(describe(error, title), retry);
    this.#status.set("error", TEXT.status.failed);
  }
}

/** The manifest, by the request that the page's head has already made. */
async function fetchManifest(): Promise<Manifest> {
  const response = await fetch("manifest.json");
  if (!response.ok) {
    throw new InputFault(TEXT.error.fetch("manifest.json", TEXT.error.status(response.status)));
  }
  return response.json();
}

async function main(): Promise<void> {
  const root = new URL(byId("try", HTMLElement).dataset.root ?? ".", document.baseURI);
  startCode(root);
  try {
    const isolation = new Isolation(root);
    if (!(await isolation.settle())) {
      new ModelPage(await fetchManifest(), isolation).start();
    }
  } catch (error) {
    new FaultBox().show(describe(error, TEXT.error.load.title), () => location.reload());
    new Status().set("error", TEXT.status.failed);
  }
}

void main();
