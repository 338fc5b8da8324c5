/** tensors: a model of no known task. Its inputs to fill in, its outputs with their values. */
import { button, h } from "../pages/dom.ts";
import { fetchStored } from "../pages/files.ts";
import { TEXT } from "../pages/text.ts";
import type { Reference, Signature, TensorLike } from "../runtime/index.ts";
import { decode, read } from "../runtime/tensor.ts";
import { outputBlock } from "./output-block.ts";
import type { Page, Turn } from "./task.ts";
import { buildEditor, type Editor } from "./tensor-editor.ts";

export function startTensors(page: Page): void {
  const { inputs, outputs } = withoutState(page.manifest.interface);
  const { references } = page.manifest;
  const sizes = buildSizes(page);
  const editors = inputs.map((spec) => buildEditor(spec, sizes, references.length > 0));

  const choice = h("select", { "aria-label": TEXT.tensors.sources.reference });
  choice.append(...references.map(({ name }, at) => h("option", { value: at }, name)));
  const chosen = () => references[Number(choice.value)];

  const useReference = button(
    TEXT.tensors.useReference,
    () => {
      const reference = chosen();
      if (reference) {
        fillSizes(page, sizes, reference);
        for (const editor of editors) {
          editor.choose("reference");
        }
        void run();
      }
    },
    { "data-testid": "use-reference" },
  );
  const runButton = button(TEXT.tensors.run, () => void run(), {
    class: "button primary",
    "data-testid": "run",
  });

  const symbols = h("div", { class: "sizes" }, ...[...sizes.values()].map(({ label }) => label));
  page.input.append(
    h("h3", { class: "small-heading" }, TEXT.tensors.inputs),
    ...editors.map(({ element }) => element),
    ...(sizes.size > 0
      ? [h("h3", { class: "small-heading" }, TEXT.tensors.dimensions), symbols]
      : []),
    h(
      "div",
      { class: "row" },
      runButton,
      ...(references.length > 0 ? [useReference] : []),
      ...(references.length > 1 ? [choice] : []),
    ),
  );

  const empty = h("p", { class: "empty" }, TEXT.tensors.empty);
  const heading = h("h3", { class: "small-heading" }, TEXT.tensors.outputs);
  const time = h("p", { class: "muted figures", "data-testid": "time" });
  const blocks = h("div", { class: "outputs" });
  const answer = h("div", { hidden: true }, heading, time, blocks);
  page.result.append(empty, answer);

  const run = () =>
    page.take(async (turn) => {
      const given: Record<string, TensorLike> = {};
      const stored = editors.some(({ usesReference }) => usesReference())
        ? await readReference(page, chosen(), turn)
        : {};
      for (const editor of editors) {
        given[editor.spec.name] = await readValue(editor, stored);
      }
      answer.classList.add("stale");
      const result = await turn.run(given);
      answer.classList.remove("stale");
      time.textContent = TEXT.tensors.time(result.total);
      const shown = outputs.flatMap(({ name }) => {
        const tensor = result.outputs[name];
        return tensor ? [outputBlock(name, tensor)] : [];
      });
      blocks.replaceChildren(...shown);
      empty.hidden = true;
      answer.hidden = false;
      return undefined;
    });
}

/** What is asked for and shown: not what goes from run to run, such as a cache. */
function withoutState({ inputs, outputs }: Signature): Signature {
  const state = new Set(inputs.map(({ from }) => from));
  return {
    inputs: inputs.filter(({ from }) => from === undefined),
    outputs: outputs.filter(({ name }) => !state.has(name)),
  };
}

async function readValue(editor: Editor, stored: Record<string, TensorLike>): Promise<TensorLike> {
  const value = editor.usesReference() ? stored[editor.spec.name] : undefined;
  return value ?? (await editor.read());
}

/** The size that a visitor chooses for a symbolic dimension. */
export interface Size {
  readonly label: HTMLElement;
  readonly field: HTMLInputElement;
}

function buildSizes({ manifest }: Page): Map<string, Size> {
  const names = withoutState(manifest.interface)
    .inputs.flatMap(({ shape }) => shape)
    .filter((dim) => typeof dim === "string");
  const sizes = new Map(
    [...new Set(names)].map((name) => {
      const field = h("input", { type: "number", min: 1, step: 1, value: 1, inputmode: "numeric" });
      field.setAttribute("aria-label", TEXT.tensors.dimension(name));
      return [name, { field, label: h("label", {}, h("code", {}, name), field) }] as const;
    }),
  );
  const [first] = manifest.references;
  if (first) {
    fillSizes({ manifest }, sizes, first);
  }
  return sizes;
}

/** Set the sizes to those of a stored reference. */
function fillSizes(
  { manifest }: Pick<Page, "manifest">,
  sizes: ReadonlyMap<string, Size>,
  reference: Reference,
): void {
  for (const { name, shape } of manifest.interface.inputs) {
    const stored = reference.inputs.find((input) => input.name === name);
    for (const [axis, dim] of shape.entries()) {
      const size = typeof dim === "string" ? sizes.get(dim) : undefined;
      const extent = stored?.shape[axis];
      if (size && extent !== undefined) {
        size.field.value = String(extent);
      }
    }
  }
}

async function readReference(
  page: Page,
  reference: Reference | undefined,
  turn: Turn,
): Promise<Record<string, TensorLike>> {
  if (reference === undefined) {
    return {};
  }
  turn.say(TEXT.status.reading(reference.name));
  const bytes = await fetchStored(page.root, reference.file, turn.signal);
  return Object.fromEntries(
    reference.inputs.map((stored) => [stored.name, decode(read(stored, bytes))]),
  );
}
