/** "Stored on this device": what this browser keeps of the models, and the controls to delete it. */
import { filesCache } from "../offline/names.ts";
import type { Kept, KeptModel, storage as Storage } from "../runtime/index.ts";
import { button, byId, h, row, table } from "./dom.ts";
import { formatBytes } from "./format.ts";
import { ROOT } from "./root.ts";
import { tellCleared } from "./storage-event.ts";
import { TEXT } from "./text.ts";

class StorageDialog {
  readonly #storage: typeof Storage;
  readonly #summary = h("p", { "data-testid": "storage-summary", role: "status" });
  readonly #models = h("div");
  readonly #actions = h("div", { class: "row" });
  readonly #dialog: HTMLDialogElement;

  constructor(storage: typeof Storage) {
    this.#storage = storage;
    this.#dialog = h(
      "dialog",
      { class: "panel storage", "aria-labelledby": "storage-title", "data-testid": "storage" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", { id: "storage-title" }, TEXT.storage.title),
        button(TEXT.storage.close, () => this.#dialog.close(), { class: "button small" }),
      ),
      this.#summary,
      this.#models,
      this.#actions,
    );
    // What lies around the content is the dialog's own: a click beside it closes it.
    this.#dialog.addEventListener("click", ({ target, clientX, clientY }) => {
      const { left, right, top, bottom } = this.#dialog.getBoundingClientRect();
      const inside = clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
      if (target === this.#dialog && !inside) this.#dialog.close();
    });
    document.body.append(this.#dialog);
  }

  async open(): Promise<void> {
    this.#summary.textContent = TEXT.storage.reading;
    this.#dialog.showModal();
    await this.#try(() => this.#storage.kept());
  }

  /** Do something that says what is kept afterwards, and show that. */
  async #try(work: () => Promise<Kept>): Promise<void> {
    try {
      await this.#show(await work());
    } catch (error) {
      this.#summary.textContent = TEXT.storage.failed(String(error));
    }
  }

  async #show(kept: Kept): Promise<void> {
    const room = await this.#storage.room();
    this.#summary.textContent = summary(kept, room?.quota);
    if (kept.models.length > 0) {
      const rows = kept.models.map((model) => this.#row(model));
      this.#models.replaceChildren(table(TEXT.storage.caption, TEXT.storage.columns, rows));
    } else {
      this.#models.replaceChildren();
    }
    this.#actions.replaceChildren();
    if (kept.bytes > 0) {
      const all = button(TEXT.storage.deleteAll, () => void this.#delete(), {
        class: "button small",
        "data-testid": "storage-delete-all",
      });
      this.#actions.append(all);
      if (room && !room.persistent) this.#actions.append(this.#protection());
      else if (room) this.#actions.append(h("span", { class: "muted" }, TEXT.storage.protected));
    }
  }

  #row(model: KeptModel): HTMLTableRowElement {
    const bytes = Object.values(model.files).reduce((sum, size) => sum + size, 0);
    const remove = button(TEXT.storage.delete, () => void this.#delete(model.url), {
      class: "button small",
      "aria-label": TEXT.storage.deleteNamed(model.title),
    });
    const page = new URL(".", model.url).href;
    const used = new Date(model.used).toLocaleDateString();
    const cells = [h("a", { href: page }, model.title), formatBytes(bytes), used, remove];
    return row(cells, { "data-testid": "storage-model" });
  }

  async #delete(url?: string): Promise<void> {
    await this.#try(async () => {
      const kept = await this.#storage.forget(url);
      // References and samples, which are kept for use without a connection.
      if (url === undefined) await globalThis.caches?.delete(filesCache(ROOT.href));
      tellCleared(url);
      return kept;
    });
    // The button that was pressed is gone: the keyboard goes on from the top.
    this.#dialog.querySelector("button")?.focus();
  }

  #protection(): HTMLButtonElement {
    const control = button(
      TEXT.storage.protect,
      async () => {
        const granted = await this.#storage.persist().catch(() => false);
        const words = granted ? TEXT.storage.protected : TEXT.storage.unprotected;
        control.replaceWith(h("span", { class: "muted", role: "status" }, words));
      },
      { class: "button small", "data-testid": "storage-protect" },
    );
    return control;
  }
}

function summary({ store, reason, models, bytes }: Kept, quota: number | undefined): string {
  if (store === "none") return TEXT.storage.none(reason);
  if (bytes === 0) return TEXT.storage.empty;
  // Unfinished downloads have no model yet.
  return TEXT.storage.summary(models.length, bytes, quota);
}

let dialog: StorageDialog | undefined;

const opener = byId("storage-open", HTMLButtonElement);
opener.hidden = false;
opener.addEventListener("click", async () => {
  // The gallery needs nothing of the runtime until somebody asks.
  const { storage } = await import("../runtime/index.ts");
  dialog ??= new StorageDialog(storage);
  await dialog.open();
});
