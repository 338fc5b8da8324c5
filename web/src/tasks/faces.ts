/** face-detection: a picture with boxes and landmarks, a list, and faces made unrecognisable. */
import { button, context2d, download, h, row, table } from "../pages/dom.ts";
import { percent } from "../pages/format.ts";
import { TEXT } from "../pages/text.ts";
import type { Manifest, RunResult } from "../runtime/index.ts";
import { type Picture, pixels } from "./image.ts";
import { isNamed, mainInput, numbers } from "./outputs.ts";
import { buildPictureSource } from "./picture-source.ts";
import type { Page } from "./task.ts";

/** A face in pixels of the picture. */
export interface Face {
  readonly score: number;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  /** Eyes, nose, corners of the mouth: x and y of each. */
  readonly landmarks: readonly (readonly [number, number])[];
}

/** The least score that the slider offers; finds below it are noise. */
const LEAST_SCORE = 0.2;
const USUAL_SCORE = 0.5;
/** Faces are blurred in cells of this share of their size: nothing of a face survives it. */
const BLUR_CELLS = 7;

/** Faces from the outputs `boxes` [n, 4], `scores` [n] and `landmarks` [n, 5, 2], best first. */
export function facesOf(manifest: Manifest, result: RunResult): Face[] {
  const boxes = numbers(manifest, result, "boxes");
  const marks = numbers(manifest, result, "landmarks");
  const scores = numbers(manifest, result, "scores");
  const perFace = scores.length === 0 ? 0 : marks.length / scores.length;
  return scores
    .map((score, index) => {
      const [left = 0, top = 0, right = 0, bottom = 0] = boxes.slice(4 * index, 4 * index + 4);
      const own = marks.slice(perFace * index, perFace * (index + 1));
      const landmarks = Array.from(
        { length: own.length / 2 },
        (_, at) => [own[2 * at] ?? 0, own[2 * at + 1] ?? 0] as const,
      );
      return { score, left, top, right, bottom, landmarks };
    })
    .sort((a, b) => b.score - a.score);
}

export function startFaces(page: Page): void {
  const spec = page.manifest.interface.inputs.find(({ name }) => isNamed(name, "score_threshold"));
  const usual = Math.max(LEAST_SCORE, spec?.default?.[0] ?? USUAL_SCORE);
  let picture: Picture | undefined;
  let found: readonly Face[] = [];

  const empty = h("p", { class: "empty" }, TEXT.faces.empty);
  const overlay = h("canvas", { class: "overlay", role: "img" });
  const preview = h("div", { class: "picture" });
  const count = h("h3", { class: "count", "data-testid": "face-count" });
  const note = h("p", { class: "muted", hidden: true });
  const list = h("div");
  const threshold = h("input", {
    type: "range",
    min: LEAST_SCORE,
    max: 0.99,
    step: 0.01,
    value: usual,
    "data-testid": "threshold",
  });
  const shownThreshold = h("output", { class: "figures" });
  const blur = h("input", { type: "checkbox", "data-testid": "blur" });
  const marks = h("input", { type: "checkbox", checked: true, "data-testid": "marks" });
  const save = button(TEXT.faces.download, () => void savePicture(), {
    class: "button small",
    "data-testid": "download-picture",
  });
  const controls = h(
    "div",
    { class: "row controls" },
    h("label", { class: "slider" }, TEXT.faces.threshold, threshold, shownThreshold),
    h("label", { class: "check" }, blur, TEXT.faces.blur),
    h("label", { class: "check" }, marks, TEXT.faces.marks),
    save,
  );
  const answer = h("div", { class: "faces", hidden: true }, preview, note, count, controls, list);
  page.result.append(empty, answer);
  for (const control of [threshold, blur, marks]) {
    control.addEventListener("input", show);
  }

  buildPictureSource(page, { live: true }, async (taken, turn) => {
    // Non-maximum suppression goes from the best face down, so the faces above a threshold don't
    // depend on those below it: one run at the least score serves every position of the slider.
    const result = await turn.run({
      ...mainInput(page.manifest, pixels(taken)),
      ...(spec ? { [spec.name]: { data: [LEAST_SCORE], dims: [] } } : {}),
    });
    picture = taken;
    found = facesOf(page.manifest, result);
    show();
  });

  const visible = () => found.filter(({ score }) => score >= threshold.valueAsNumber);

  function show(): void {
    shownThreshold.textContent = threshold.valueAsNumber.toFixed(2);
    if (picture === undefined) {
      return;
    }
    const faces = visible();
    empty.hidden = true;
    answer.hidden = false;
    note.textContent = picture.reduced ?? "";
    note.hidden = picture.reduced === undefined;
    count.textContent = TEXT.faces.count(faces.length);
    paint(overlay, picture, faces, { blur: blur.checked, marks: marks.checked });
    overlay.setAttribute("aria-label", TEXT.faces.canvas(faces.length));
    picture.canvas.setAttribute("aria-hidden", "true");
    preview.replaceChildren(picture.canvas, overlay);
    list.replaceChildren(
      faces.length > 0
        ? table(TEXT.faces.caption, TEXT.faces.columns, faces.map(faceRow))
        : h("p", { class: "muted" }, TEXT.faces.none),
    );
  }

  async function savePicture(): Promise<void> {
    if (picture === undefined) {
      return;
    }
    const sheet = h("canvas");
    sheet.width = picture.canvas.width;
    sheet.height = picture.canvas.height;
    const context = context2d(sheet);
    context.drawImage(picture.canvas, 0, 0);
    context.drawImage(overlay, 0, 0);
    const content = await new Promise<Blob | null>((done) => sheet.toBlob(done, "image/png"));
    if (content === null) {
      page.fault(new Error(TEXT.faces.notSaved));
      return;
    }
    download(content, TEXT.faces.file);
  }
}

function faceRow(face: Face, index: number): HTMLTableRowElement {
  const point = (x: number, y: number) => `${Math.round(x)}, ${Math.round(y)}`;
  return row(
    [
      String(index + 1),
      percent(face.score),
      point(face.left, face.top),
      point(face.right, face.bottom),
    ],
    {
      class: "figures",
      "data-testid": "face-row",
      "data-box": [face.left, face.top, face.right, face.bottom].join(","),
      "data-score": face.score,
    },
  );
}

/** Draw what goes over the picture; transparent elsewhere. */
function paint(
  overlay: HTMLCanvasElement,
  { canvas }: Picture,
  faces: readonly Face[],
  shown: { readonly blur: boolean; readonly marks: boolean },
): void {
  overlay.width = canvas.width;
  overlay.height = canvas.height;
  const context = context2d(overlay);
  if (shown.blur) {
    for (const face of faces) {
      blurFace(context, canvas, face);
    }
  }
  if (!shown.marks) {
    return;
  }
  // About two CSS pixels however far the picture is scaled down on the page.
  const unit = Math.max(1, Math.max(canvas.width, canvas.height) / 400);
  for (const face of faces) {
    const box = [face.left, face.top, face.right - face.left, face.bottom - face.top] as const;
    // Dark below light: visible on any picture.
    for (const [colour, width] of [
      ["rgb(0 0 0 / 60%)", 3.2 * unit],
      ["#5ee0a0", 1.6 * unit],
    ] as const) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(...box);
    }
    for (const [x, y] of face.landmarks) {
      context.beginPath();
      context.arc(x, y, 1.8 * unit, 0, 2 * Math.PI);
      context.fillStyle = "#5ee0a0";
      context.fill();
      context.lineWidth = 0.6 * unit;
      context.strokeStyle = "rgb(0 0 0 / 60%)";
      context.stroke();
    }
  }
}

/**
 * Cover a face with itself in a few smoothed cells. Canvas filters would be shorter, but Safari has
 * none, and a face that stays sharp without a word is worse than a coarse blur.
 */
function blurFace(context: CanvasRenderingContext2D, canvas: HTMLCanvasElement, face: Face): void {
  const left = Math.max(0, Math.floor(face.left));
  const top = Math.max(0, Math.floor(face.top));
  const width = Math.min(canvas.width, Math.ceil(face.right)) - left;
  const height = Math.min(canvas.height, Math.ceil(face.bottom)) - top;
  if (width <= 0 || height <= 0) {
    return;
  }
  const cells = document.createElement("canvas");
  cells.width = BLUR_CELLS;
  cells.height = BLUR_CELLS;
  const small = context2d(cells);
  small.imageSmoothingQuality = "high";
  small.drawImage(canvas, left, top, width, height, 0, 0, BLUR_CELLS, BLUR_CELLS);
  context.imageSmoothingQuality = "high";
  context.drawImage(cells, 0, 0, BLUR_CELLS, BLUR_CELLS, left, top, width, height);
}
