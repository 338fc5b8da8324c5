/** image-classification: a picture, and bars of the most likely labels. */
import { h } from "../pages/dom.ts";
import { percent } from "../pages/format.ts";
import { TEXT } from "../pages/text.ts";
import type { RunResult } from "../runtime/index.ts";
import { type Picture, pixels } from "./image.ts";
import { mainInput, numbers } from "./outputs.ts";
import { buildPictureSource } from "./picture-source.ts";
import type { Page } from "./task.ts";

export function startClassification(page: Page): void {
  const preview = h("div", { class: "picture", hidden: true });
  const note = h("p", { class: "muted", hidden: true });
  const empty = h("p", { class: "empty" }, TEXT.classification.empty);
  const labels = h("ol", { class: "labels" });
  const heading = h("h3", { class: "small-heading" }, TEXT.classification.heading);
  const answer = h("div", { hidden: true }, heading, labels);
  page.result.append(empty, preview, note, answer);

  buildPictureSource(page, {}, async (picture, turn) => {
    showPicture(picture);
    answer.classList.add("stale");
    const result = await turn.run(mainInput(page.manifest, pixels(picture)));
    answer.classList.remove("stale");
    showLabels(result);
  });

  function showPicture({ canvas, name, reduced }: Picture): void {
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", TEXT.picture(name, canvas.width, canvas.height));
    preview.replaceChildren(canvas);
    note.textContent = reduced ?? "";
    note.hidden = reduced === undefined;
    preview.hidden = false;
    empty.hidden = true;
  }

  function showLabels(result: RunResult): void {
    const scores = numbers(page.manifest, result, "scores");
    const rows = numbers(page.manifest, result, "classes").map((index, place) =>
      labelRow(
        page.manifest.labels[index] ?? TEXT.classification.unnamed(index),
        scores[place] ?? 0,
      ),
    );
    labels.replaceChildren(...rows);
    answer.hidden = false;
  }
}

function labelRow(label: string, score: number): HTMLElement {
  const bar = h("span", { class: "bar-fill" });
  bar.style.inlineSize = `${Math.max(0, Math.min(1, score)) * 100}%`;
  return h(
    "li",
    { class: "label-row", "data-testid": "label-row", "data-score": score },
    h("span", { class: "label-name" }, label),
    h("span", { class: "figures" }, percent(score)),
    h("span", { class: "bar-track", "aria-hidden": "true" }, bar),
  );
}
