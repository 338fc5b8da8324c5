/** file-type: any files, and a table of what they are by their content. */
import { button, h, row, table } from "../pages/dom.ts";
import { formatBytes, percent } from "../pages/format.ts";
import { TEXT } from "../pages/text.ts";
import type { TensorLike } from "../runtime/index.ts";
import { mainInput, numbers } from "./outputs.ts";
import { buildSource, type Given } from "./source.ts";
import { InputFault, type Page, type Turn } from "./task.ts";

/** The model looks at both ends of a file, this many bytes of each at most. */
const END = 4096;

/** The whole file, or both its ends if it is longer than they are together. */
export async function ends(file: Blob): Promise<Uint8Array<ArrayBuffer>> {
  const parts = file.size > 2 * END ? [file.slice(0, END), file.slice(-END)] : [file];
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export function startFileType(page: Page): void {
  const empty = h("p", { class: "empty" }, TEXT.files.empty);
  const list = h("div", { class: "files", hidden: true });
  const rows = table(TEXT.files.caption, TEXT.files.columns, []);
  const body = rows.querySelector("tbody");
  const clear = button(
    TEXT.files.clear,
    () => {
      body?.replaceChildren();
      list.hidden = true;
      empty.hidden = false;
    },
    { class: "button small", "data-testid": "clear" },
  );
  list.append(rows, clear);
  page.result.append(empty, list);

  buildSource(
    page,
    {
      accept: "",
      multiple: true,
      prompt: TEXT.input.dropFiles,
      choose: TEXT.input.chooseFiles,
    },
    (given) => void page.take((turn) => look(given, turn)),
  );

  async function look(given: readonly Given[], turn: Turn): Promise<undefined> {
    for (const [index, item] of given.entries()) {
      turn.say(
        given.length > 1
          ? TEXT.files.working(index + 1, given.length)
          : TEXT.status.reading(item.name),
      );
      const { size, bytes } = await readEnds(item, turn);
      const answer =
        bytes.length === 0
          ? [TEXT.files.emptyFile, TEXT.files.none, TEXT.files.none]
          : await classify(bytes, turn);
      turn.signal.throwIfAborted();
      body?.prepend(row([item.name, formatBytes(size), ...answer], { "data-testid": "file-row" }));
      list.hidden = false;
      empty.hidden = true;
    }
    return undefined;
  }

  async function classify(bytes: Uint8Array<ArrayBuffer>, turn: Turn): Promise<string[]> {
    const input: TensorLike = { data: bytes, dims: [bytes.length] };
    const result = await turn.run(mainInput(page.manifest, input));
    const scores = numbers(page.manifest, result, "scores");
    const names = numbers(page.manifest, result, "classes").map(
      (index) => page.manifest.labels[index] ?? TEXT.classification.unnamed(index),
    );
    const next =
      names[1] === undefined ? TEXT.files.none : `${names[1]} (${percent(scores[1] ?? 0)})`;
    return [names[0] ?? TEXT.files.none, percent(scores[0] ?? 0), next];
  }
}

async function readEnds(item: Given, turn: Turn) {
  const file = await item.read(turn);
  try {
    return { size: file.size, bytes: await ends(file) };
  } catch {
    // Folders and files that vanished show themselves only when they are read.
    throw new InputFault(TEXT.error.unreadable(item.name));
  }
}
