/** More than one thread on hosts that send no headers for it: the service worker adds them. */
import { wantIsolation, wantsIsolation } from "../offline/names.ts";
import type { Info } from "../runtime/index.ts";
import { button, byId, h } from "./dom.ts";
import { TEXT } from "./text.ts";

/** Milliseconds for the service worker to install before a page goes on without it. */
const PATIENCE = 8000;

/** What the site's builder wants: `--isolate`. */
type Mode = "ask" | "auto" | "never";

export class Isolation {
  readonly #scope: string;
  readonly #mode: Mode;
  readonly #box = byId("cores", HTMLDivElement);

  constructor(root: URL) {
    this.#scope = root.href;
    this.#mode = (byId("try", HTMLElement).dataset.isolate ?? "never") as Mode;
  }

  /**
   * Isolate the page if the address (`?isolate=1`) or the site asks for it, or stop that.
   *
   * @returns Whether the page is about to be loaded anew. That happens once: only a change of the
   *   setting leads to it.
   */
  async settle(): Promise<boolean> {
    const wanted = this.#wanted();
    if (wanted === undefined || this.#mode === "never" || (wanted && crossOriginIsolated)) {
      return false;
    }
    if (!isSupported()) {
      return false;
    }
    try {
      return (await wantsIsolation(this.#scope)) !== wanted && (await this.#switch(wanted));
    } catch {
      // No storage, or no room in it: one thread is all that is lost.
      return false;
    }
  }

  /** Offer more threads for a model that runs on one, or say why there are no more. */
  offer({ device, threads }: Info): void {
    const cores = navigator.hardwareConcurrency;
    const useful = device === "wasm" && threads === 1 && cores > 1 && !crossOriginIsolated;
    // A frame is isolated only together with the page around it.
    if (!useful || this.#mode === "never" || window.top !== window) {
      this.#box.hidden = true;
      return;
    }
    if (isSupported()) {
      const use = button(TEXT.cores.use, () => void this.#use(use), {
        class: "button small",
        "data-testid": "use-cores",
      });
      this.#box.replaceChildren(h("p", {}, TEXT.cores.offer(cores)), use);
    } else {
      this.#box.replaceChildren(h("p", {}, TEXT.cores.unsupported));
    }
    this.#box.hidden = false;
  }

  async #use(control: HTMLButtonElement): Promise<void> {
    control.disabled = true;
    const switched = await this.#switch(true).catch(() => false);
    if (!switched) {
      this.#box.replaceChildren(h("p", {}, TEXT.cores.failed));
    }
  }

  async #switch(wanted: boolean): Promise<boolean> {
    const late = new Promise<undefined>((resolve) =>
      setTimeout(() => resolve(undefined), PATIENCE),
    );
    const ready = await Promise.race([navigator.serviceWorker.ready, late]);
    if (!ready) {
      return false;
    }
    await wantIsolation(this.#scope, wanted);
    location.reload();
    return true;
  }

  #wanted(): boolean | undefined {
    const asked = new URLSearchParams(location.search).get("isolate");
    if (asked === "1" || asked === "0") {
      return asked === "1";
    }
    return this.#mode === "auto" ? true : undefined;
  }
}

/** Insecure origins and some private windows have neither. */
const isSupported = () => "serviceWorker" in navigator && "caches" in globalThis;
