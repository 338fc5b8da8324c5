/** What the model runs on, and why it isn't something better. */
import type { Info } from "../runtime/index.ts";
import { byId, h } from "./dom.ts";
import { formatDuration } from "./format.ts";
import { TEXT } from "./text.ts";

/** device · dtype · threads · milliseconds of the last run · runtime build. */
export function badgeParts(info: Info, milliseconds?: number): string[] {
  return [
    TEXT.device(info.device),
    info.dtype,
    TEXT.badge.threads(info.threads),
    ...(milliseconds === undefined ? [] : [formatDuration(milliseconds)]),
    TEXT.badge.runtime(info.runtimeVersion, info.flavour),
  ];
}

export function showBadge(info: Info, milliseconds?: number): void {
  const badge = byId("badge", HTMLParagraphElement);
  const parts = badgeParts(info, milliseconds).map((part) => h("span", {}, part));
  badge.replaceChildren(...parts.flatMap((part, at) => (at === 0 ? [part] : [" · ", part])));
  badge.title = info.adapter ? TEXT.badge.adapter(info.adapter) : "";
  badge.dataset.device = info.device;
  badge.dataset.dtype = info.dtype;
  badge.dataset.threads = String(info.threads);
  badge.hidden = false;
  const why = byId("why", HTMLDetailsElement);
  const list = Object.values(info.reasons).map((reason) => h("li", {}, reason));
  why.replaceChildren(h("summary", {}, TEXT.badge.why), h("ul", {}, ...list));
  why.hidden = false;
}

export function hideBadge(): void {
  byId("badge", HTMLParagraphElement).hidden = true;
  byId("why", HTMLDetailsElement).hidden = true;
}

/** Notes on the address, and the reason of every step down. */
export function showFallbacks(notes: readonly string[], info?: Info): void {
  const list = byId("fallback", HTMLUListElement);
  const warnings = (info?.events ?? []).filter(({ level }) => level === "warning");
  const messages = [...notes, ...new Set(warnings.map(({ message }) => message))];
  const shown = [...list.children].map((item) => item.textContent);
  // Unchanged notes are left alone, so that a screen reader doesn't repeat them after every run.
  if (shown.join("\n") !== messages.join("\n")) {
    list.replaceChildren(...messages.map((message) => h("li", {}, message)));
  }
  list.hidden = messages.length === 0;
}
