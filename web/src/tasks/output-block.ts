/** One output of a model: type, shape, statistics, first values, a heat map and downloads. */
import { button, context2d, download, h } from "../pages/dom.ts";
import { formatNumber } from "../pages/format.ts";
import { TEXT } from "../pages/text.ts";
import type { Tensor } from "../runtime/index.ts";
import { writeNpy } from "./npy.ts";
import { type Grid, gridOf, type Statistics, summarise, viridis } from "./statistics.ts";

const FIRST_VALUES = 16;

export function outputBlock(name: string, tensor: Tensor): HTMLElement {
  const { statistics, nonFinite } = summarise(tensor.data);
  const block = h(
    "section",
    { class: "output", "data-testid": "output", "data-name": name },
    h(
      "h4",
      {},
      h("code", {}, name),
      h(
        "span",
        { class: "muted" },
        ` ${TEXT.tensors.type(tensor.dtype, tensor.words)} ${TEXT.tensors.shape(tensor.dims)}`,
      ),
    ),
  );
  if (!tensor.words) {
    block.append(
      statistics ? statisticsList(statistics) : h("p", { class: "muted" }, TEXT.tensors.noValues),
    );
  }
  if (nonFinite > 0) {
    block.append(h("p", { class: "notice notice-warning" }, TEXT.tensors.nonFinite(nonFinite)));
  }
  if (tensor.data.length > 0) {
    block.append(firstValues(tensor));
  }
  const grid = tensor.words ? undefined : gridOf(tensor.dims);
  if (grid && statistics) {
    block.append(heatMap(name, tensor, grid, statistics));
  }
  const file = name.replace(/[^\w.-]+/g, "_");
  block.append(
    h(
      "div",
      { class: "row" },
      button(
        TEXT.tensors.downloadNpy,
        () => download(new Blob([writeNpy(tensor)]), `${file}.npy`),
        { class: "button small", "data-testid": "download-npy" },
      ),
      button(TEXT.tensors.downloadJson, () => download(asJson(name, tensor), `${file}.json`), {
        class: "button small",
        "data-testid": "download-json",
      }),
    ),
  );
  return block;
}

function statisticsList({ minimum, maximum, mean, deviation }: Statistics): HTMLElement {
  const values = [minimum, maximum, mean, deviation];
  const pairs = TEXT.tensors.columns.map((label, at) =>
    h("div", {}, h("dt", {}, label), h("dd", {}, formatNumber(values[at] ?? 0))),
  );
  return h("dl", { class: "facts figures" }, ...pairs);
}

function firstValues({ data, words }: Tensor): HTMLElement {
  const shown =
    words?.slice(0, FIRST_VALUES) ??
    Array.from(data.subarray(0, FIRST_VALUES) as Iterable<number | bigint>, (value) =>
      formatNumber(value),
    );
  return h(
    "div",
    {},
    h("p", { class: "muted" }, TEXT.tensors.first(shown.length)),
    h(
      "p",
      { class: "values figures" },
      shown.join(", ") + (data.length > shown.length ? ", …" : ""),
    ),
  );
}

function heatMap(name: string, tensor: Tensor, grid: Grid, statistics: Statistics): HTMLElement {
  const canvas = h("canvas", {
    class: "heat",
    role: "img",
    "aria-label": TEXT.tensors.heatMap(name),
  });
  canvas.width = grid.width;
  canvas.height = grid.height;
  const context = context2d(canvas);
  const { minimum, maximum } = statistics;
  const paint = (slice: number) => {
    const image = context.createImageData(grid.width, grid.height);
    const area = grid.width * grid.height;
    for (let index = 0; index < area; index++) {
      const value = Number(tensor.data[slice * area + index]);
      const share = maximum > minimum ? (value - minimum) / (maximum - minimum) : 0;
      // Values that aren't finite stay transparent.
      if (Number.isFinite(value)) {
        image.data.set([...viridis(share), 255], 4 * index);
      }
    }
    context.putImageData(image, 0, 0);
  };
  paint(0);
  const range = TEXT.tensors.range(formatNumber(minimum), formatNumber(maximum));
  const figure = h("figure", {}, canvas, h("figcaption", { class: "muted figures" }, range));
  if (grid.slices > 1) {
    figure.append(slicePicker(grid.slices, paint));
  }
  return figure;
}

function slicePicker(slices: number, paint: (slice: number) => void): HTMLElement {
  const field = h("input", { type: "number", min: 0, max: slices - 1, value: 0 });
  field.addEventListener("input", () => {
    const slice = field.valueAsNumber;
    if (Number.isInteger(slice) && slice >= 0 && slice < slices) {
      paint(slice);
    }
  });
  return h("label", { class: "slice" }, TEXT.tensors.slice, field, `/ ${slices - 1}`);
}

/** Values that JSON has no word for, and integers that its readers would round, go as strings. */
function asJson(name: string, { dtype, dims, data, words }: Tensor): Blob {
  const values =
    words ??
    Array.from(data as Iterable<number | bigint>, (value) => {
      const exact =
        typeof value === "number" ? Number.isFinite(value) : Number.isSafeInteger(Number(value));
      return exact ? Number(value) : String(value);
    });
  const text = JSON.stringify({ name, dtype, dims, data: values });
  return new Blob([text], { type: "application/json" });
}
