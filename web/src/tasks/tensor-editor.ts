/** One input of a model: where its values come from, and what they are. */
import { h } from "../pages/dom.ts";
import { TEXT } from "../pages/text.ts";
import type { TensorLike, TensorSpec } from "../runtime/index.ts";
import { allocate, NpyError, readNpy, sizeOf } from "./npy.ts";
import { InputFault } from "./task.ts";
import type { Size } from "./tensors.ts";
import {
  CountError,
  parseNumbers,
  parseWords,
  randomValues,
  randomWords,
  TokenError,
} from "./values.ts";

export type Source = keyof typeof TEXT.tensors.sources;

export interface Editor {
  readonly spec: TensorSpec;
  readonly element: HTMLElement;
  choose(source: Source): void;
  usesReference(): boolean;
  /** The input's value, where it isn't the stored reference's. Rejects with InputFault. */
  read(): Promise<TensorLike>;
}

/** 256 MiB of float32: above it, tabs fall over. */
const MOST_VALUES = 2 ** 26;

export function buildEditor(
  spec: TensorSpec,
  sizes: ReadonlyMap<string, Size>,
  hasReference: boolean,
): Editor {
  const id = `input-${spec.name.replace(/\W+/g, "-")}`;
  const offered = (Object.keys(TEXT.tensors.sources) as Source[]).filter(
    (source) => source !== "reference" || hasReference,
  );
  const select = h("select", { id, "data-testid": `source-${spec.name}` });
  const named = (source: Source) =>
    source === "numbers" && spec.vocabulary
      ? TEXT.tensors.typedWords
      : TEXT.tensors.sources[source];
  select.append(...offered.map((value) => h("option", { value }, named(value))));
  const text = h("textarea", { rows: 2, spellcheck: false, "aria-label": TEXT.tensors.source });
  text.dataset.testid = `numbers-${spec.name}`;
  const { vocabulary } = spec;
  text.value = vocabulary?.[0] ?? (spec.default ?? [0]).join(", ");
  const meaning = vocabulary ? TEXT.tensors.words(vocabulary) : TEXT.tensors.numbers;
  const hint = h("p", { class: "muted" }, meaning);
  const typed = h("div", {}, text, hint);
  const file = h("input", { type: "file", accept: ".npy", "aria-label": TEXT.tensors.npy });
  file.dataset.testid = `npy-${spec.name}`;

  const element = h(
    "fieldset",
    { class: "tensor" },
    h("legend", {}, h("code", {}, spec.name)),
    h(
      "p",
      { class: "muted figures" },
      `${TEXT.tensors.type(spec.dtype, spec.vocabulary)} ${TEXT.tensors.shape(spec.shape)}`,
    ),
    spec.description ? h("p", { class: "muted" }, spec.description) : undefined,
    h("label", { for: id }, TEXT.tensors.source),
    select,
    typed,
    file,
  );
  const show = () => {
    typed.hidden = select.value !== "numbers";
    file.hidden = select.value !== "npy";
  };
  const choose = (source: Source) => {
    select.value = source;
    show();
  };
  select.addEventListener("change", show);
  choose(spec.default || vocabulary ? "numbers" : "random");

  const numbers = async () => generate(spec, sizes, (length) => readText(spec, text.value, length));
  const makers: Record<Source, () => Promise<TensorLike>> = {
    random: async () =>
      generate(spec, sizes, (length) =>
        vocabulary ? randomWords(vocabulary, length) : randomValues(spec.dtype, length),
      ),
    zeros: async () => generate(spec, sizes, (length) => allocate(spec.dtype, length)),
    numbers,
    npy: () => readFile(spec, file.files?.[0]),
    // An input that the reference leaves out has the default that is written there.
    reference: numbers,
  };
  return {
    spec,
    element,
    choose,
    usesReference: () => select.value === "reference",
    read: () => makers[select.value as Source](),
  };
}

function fault(spec: TensorSpec, message: string, advice: string): InputFault {
  return new InputFault(TEXT.error.badInput(spec.name, message, advice));
}

function generate(
  spec: TensorSpec,
  sizes: ReadonlyMap<string, Size>,
  make: (length: number) => TensorLike["data"],
): TensorLike {
  const dims = spec.shape.map((dim) => {
    const size = typeof dim === "number" ? dim : (sizes.get(dim)?.field.valueAsNumber ?? 0);
    if (typeof dim === "string" && !(Number.isInteger(size) && size >= 1)) {
      throw fault(spec, TEXT.error.dimension(dim), TEXT.error.dimensionAdvice);
    }
    return size;
  });
  const length = sizeOf(dims);
  if (length > MOST_VALUES) {
    throw fault(spec, TEXT.error.tooBig(length), TEXT.error.tooBigAdvice);
  }
  return { data: make(length), dims };
}

function readText(spec: TensorSpec, text: string, length: number): TensorLike["data"] {
  try {
    if (spec.vocabulary) return parseWords(text, length);
    return parseNumbers(text, spec.dtype, length);
  } catch (error) {
    if (error instanceof TokenError) {
      throw fault(spec, TEXT.error.number(error.token), TEXT.error.numberAdvice);
    }
    if (error instanceof CountError) {
      throw fault(spec, TEXT.error.count(error.count, length), TEXT.error.countAdvice);
    }
    throw error;
  }
}

async function readFile(spec: TensorSpec, file: File | undefined): Promise<TensorLike> {
  if (file === undefined) {
    throw fault(spec, TEXT.error.noFile, TEXT.error.noFileAdvice);
  }
  const { npy } = TEXT.error;
  try {
    const tensor = readNpy(new Uint8Array(await file.arrayBuffer()));
    const fits =
      tensor.dims.length === spec.shape.length &&
      spec.shape.every((dim, axis) => typeof dim === "string" || dim === tensor.dims[axis]);
    if (!fits) {
      const shapes = [tensor.dims, spec.shape].map(TEXT.tensors.shape) as [string, string];
      throw fault(spec, TEXT.error.shape(...shapes), TEXT.error.shapeAdvice);
    }
    return tensor;
  } catch (error) {
    if (error instanceof NpyError) {
      const message = error.reason === "dtype" ? npy.dtype(error.detail) : npy[error.reason];
      throw fault(spec, message, npy.advice);
    }
    throw error;
  }
}
