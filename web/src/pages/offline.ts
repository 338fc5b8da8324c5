/** The model's control "Make available offline", and whether it is. */
import { keep } from "../offline/files.ts";
import { filesCache } from "../offline/names.ts";
import type { File, Info, Manifest } from "../runtime/index.ts";
import { button, byId, h } from "./dom.ts";
import { onCleared } from "./storage-event.ts";
import { TEXT } from "./text.ts";

/**
 * The runtime keeps what it downloads itself. What else the page needs without a connection is the
 * runtime's scripts, which are kept as soon as the model is loaded, and samples and references.
 */
export class Offline {
  readonly #manifest: Manifest;
  readonly #root: URL;
  readonly #place = byId("offline", HTMLSpanElement);

  constructor(manifest: Manifest, root: URL) {
    this.#manifest = manifest;
    this.#root = root;
    // The weights aren't stored again before the model is loaded again.
    const address = new URL("manifest.json", document.baseURI).href;
    onCleared(address, () => this.#tell(TEXT.offline.cleared));
  }

  /** Show the control, or the state, of a model that was loaded just now. */
  async show(info: Info): Promise<void> {
    // A private window or an insecure origin; or the browser has no room for the model.
    const unkept = info.events.some(({ step }) => step === "storage");
    if (unkept || !("serviceWorker" in navigator && "caches" in globalThis)) {
      this.#place.hidden = true;
      return;
    }
    const scripts = this.#scripts(info);
    const all = [...scripts, ...this.#extras()];
    try {
      await this.#keep(scripts);
      await this.#showState(info, all);
    } catch {
      // Storage is refused: nothing can be offered.
      this.#place.hidden = true;
    }
  }

  async #showState(info: Info, all: readonly File[]): Promise<void> {
    const missing = await this.#missing(all);
    const worker = await navigator.serviceWorker.getRegistration(this.#root);
    if (missing.length === 0 && worker?.active) {
      this.#tell(TEXT.offline.available);
    } else {
      const bytes = all.reduce((sum, { size }) => sum + size, info.bytes.total);
      const control = button(TEXT.offline.make(bytes), () => void this.#make(control, info, all), {
        class: "button small",
        "data-testid": "make-offline",
      });
      this.#place.replaceChildren(control);
    }
    this.#place.hidden = false;
  }

  async #make(control: HTMLButtonElement, info: Info, all: readonly File[]): Promise<void> {
    control.disabled = true;
    control.textContent = TEXT.offline.storing;
    try {
      // Not waited for: Firefox asks the visitor, who may never answer.
      void navigator.storage?.persist?.().catch(() => false);
      await navigator.serviceWorker.ready;
      await this.#keep(all);
      await this.#showState(info, all);
    } catch {
      this.#tell(TEXT.offline.failed);
    }
  }

  #tell(words: string): void {
    const state = h("span", { class: "muted", role: "status", "data-testid": "offline" }, words);
    this.#place.replaceChildren(state);
  }

  /** @throws Error if one doesn't come, or there is no room. */
  async #keep(files: readonly File[]): Promise<void> {
    const cache = await caches.open(filesCache(this.#root.href));
    for (const file of await this.#missing(files)) {
      const url = this.#url(file);
      if (!(await keep(cache, url, await fetch(url)))) {
        throw new Error(`${url} isn't the file that was built.`);
      }
    }
  }

  async #missing(files: readonly File[]): Promise<File[]> {
    const cache = await caches.open(filesCache(this.#root.href));
    const found = await Promise.all(files.map((file) => cache.match(this.#url(file))));
    return files.filter((_, index) => found[index] === undefined);
  }

  #url(file: File): string {
    return new URL(file.path, this.#root).href;
  }

  #scripts({ flavour }: Info): File[] {
    const { flavours } = this.#manifest.runtime;
    return flavours.filter(({ name }) => name === flavour).flatMap(({ api, glue }) => [api, glue]);
  }

  #extras(): File[] {
    const { samples, references } = this.#manifest;
    const thumbnails = samples.flatMap(({ thumbnail }) => thumbnail ?? []);
    return [...[...samples, ...references].map(({ file }) => file), ...thumbnails];
  }
}
