/** Where inputs come from: samples, drop, file picker, paste, camera. Shared by the tasks. */
import { button, h } from "../pages/dom.ts";
import { fetchStored } from "../pages/files.ts";
import { TEXT } from "../pages/text.ts";
import type { Sample } from "../runtime/index.ts";
import type { Page, Turn } from "./task.ts";

/** A file as it was given; reading it may still fail. */
export interface Given {
  readonly name: string;
  read(turn: Turn): Promise<Blob>;
}

export interface SourceOptions {
  /** Value of the file picker's `accept`. */
  readonly accept: string;
  readonly multiple: boolean;
  readonly prompt: string;
  readonly choose: string;
  /** Opens the camera; left out where there is none to open. */
  readonly camera?: () => void;
}

/**
 * Build the controls in `page.input`; `take` is called with what the visitor gives.
 *
 * @returns A function that marks no sample as chosen, for inputs that come from elsewhere.
 */
export function buildSource(
  page: Page,
  options: SourceOptions,
  take: (given: readonly Given[]) => void,
): () => void {
  const picker = h("input", {
    type: "file",
    id: "file-input",
    "data-testid": "file-input",
    class: "visually-hidden",
    accept: options.accept,
    multiple: options.multiple,
  });
  const takeFiles = (files: Iterable<File>) => {
    const given = [...files].map(fromFile);
    if (given.length > 0) {
      mark();
      take(given);
    }
  };
  picker.addEventListener("change", () => {
    takeFiles(picker.files ?? []);
    // So that choosing the same file again counts as a change.
    picker.value = "";
  });
  const dropzone = h(
    "div",
    { class: "dropzone" },
    h("span", {}, `${options.prompt} `),
    h("span", { class: "file-choice" }, picker, h("label", { for: picker.id }, options.choose)),
  );
  if (options.camera) {
    dropzone.append(
      ` ${TEXT.input.or} `,
      button(TEXT.input.camera, options.camera, { class: "link", "data-testid": "camera" }),
    );
  }
  page.input.append(dropzone);
  const samples = page.manifest.samples.map((sample, index) =>
    sampleButton(page, sample, index, (chosen) => {
      mark(chosen);
      take([fromSample(page, sample)]);
    }),
  );
  const mark = (chosen?: HTMLButtonElement) => {
    for (const item of samples) {
      item.setAttribute("aria-pressed", String(item === chosen));
    }
  };
  if (samples.length > 0) {
    page.input.append(samplesBlock(samples));
  }
  acceptDrops(page.drop, takeFiles);
  document.addEventListener("paste", (event) => {
    const files = event.clipboardData?.files;
    if (files && files.length > 0) {
      event.preventDefault();
      takeFiles(files);
    }
  });
  return mark;
}

function fromFile(file: File): Given {
  return { name: file.name || TEXT.input.pasted, read: () => Promise.resolve(file) };
}

function fromSample(page: Page, sample: Sample): Given {
  return {
    name: sample.title,
    async read(turn) {
      const bytes = await fetchStored(page.root, sample.file, turn.signal);
      return new Blob([bytes], { type: sample.mime });
    },
  };
}

function sampleButton(
  page: Page,
  sample: Sample,
  index: number,
  choose: (chosen: HTMLButtonElement) => void,
): HTMLButtonElement {
  const item = button("", () => choose(item), {
    class: "sample",
    "data-testid": `sample-${index}`,
    "aria-pressed": "false",
    title: sample.credit,
  });
  if (sample.thumbnail) {
    const source = new URL(sample.thumbnail.path, page.root).href;
    item.append(h("img", { src: source, alt: "", loading: "lazy", decoding: "async" }));
  }
  item.append(h("span", {}, sample.title));
  return item;
}

function samplesBlock(samples: readonly HTMLButtonElement[]): HTMLElement {
  return h(
    "div",
    { class: "samples-block" },
    h("h3", { class: "small-heading", id: "samples-heading" }, TEXT.input.samples),
    h(
      "ul",
      { class: "samples", "aria-labelledby": "samples-heading" },
      ...samples.map((item) => h("li", {}, item)),
    ),
  );
}

/** Take files that are dropped on `area`, and mark it while some are held over it. */
function acceptDrops(area: HTMLElement, take: (files: Iterable<File>) => void): void {
  const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  area.addEventListener("dragover", (event) => {
    if (holdsFiles(event)) {
      event.preventDefault();
      area.classList.add("dropping");
    }
  });
  area.addEventListener("dragleave", (event) => {
    if (!(event.relatedTarget instanceof Node && area.contains(event.relatedTarget))) {
      area.classList.remove("dropping");
    }
  });
  area.addEventListener("drop", (event) => {
    area.classList.remove("dropping");
    if (holdsFiles(event)) {
      event.preventDefault();
      take(event.dataTransfer?.files ?? []);
    }
  });
}
