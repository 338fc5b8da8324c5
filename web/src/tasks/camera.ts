/** The camera: one picture at a time, or one after the other. */
import { button, h } from "../pages/dom.ts";
import { TEXT } from "../pages/text.ts";
import { draw, type Picture } from "./image.ts";
import { InputFault, type Page, type Turn } from "./task.ts";

export interface CameraOptions {
  /** A single picture was taken. */
  readonly take: (picture: Picture) => void;
  /** One frame of a live run; resolves when it is shown. Left out: no live button. */
  readonly live?: (picture: Picture, turn: Turn) => Promise<void>;
}

/** Whether this browser, on this origin, has a camera interface at all. */
export function cameraOffered(): boolean {
  return navigator.mediaDevices?.getUserMedia !== undefined;
}

/** A panel in `page.input` that `open` shows and Close takes away. */
export function buildCamera(page: Page, options: CameraOptions): { open(): void; stop(): void } {
  const video = h("video", { playsinline: true, "aria-label": TEXT.camera.label });
  video.muted = true;
  const rate = h("span", { class: "muted figures", "data-testid": "frame-rate" });
  let stream: MediaStream | undefined;
  let opening = false;
  let running = false;

  const frame = () => draw(video, video.videoWidth, video.videoHeight, TEXT.input.frame);
  const live = button(TEXT.camera.live, () => (running ? stop() : void start()), {
    "data-testid": "live",
  });
  const take = button(
    TEXT.camera.take,
    () => {
      stop();
      options.take(frame());
    },
    { class: "button primary", "data-testid": "take-picture" },
  );
  const close = button(TEXT.camera.close, () => shut());
  const controls = h("div", { class: "row" }, take, options.live ? live : undefined, close, rate);
  const panel = h("div", { class: "camera", hidden: true }, video, controls);
  page.input.prepend(panel);

  function stop(): void {
    running = false;
    live.textContent = TEXT.camera.live;
    rate.textContent = "";
  }

  async function start(): Promise<void> {
    running = true;
    live.textContent = TEXT.camera.stop;
    await page.take((turn) => runLive(turn));
    stop();
  }

  /** Frame after frame, until it is stopped, fails, or another input takes its place. */
  async function runLive(turn: Turn): Promise<string> {
    const quiet: Turn = { ...turn, run: (inputs) => turn.run(inputs, true) };
    let last = performance.now();
    let smoothed = 0;
    while (running && stream && !turn.signal.aborted) {
      await options.live?.(frame(), quiet);
      // Lets the browser paint, and pauses the loop while the page is hidden.
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      const current = 1000 / Math.max(1, now - last);
      smoothed = smoothed === 0 ? current : 0.8 * smoothed + 0.2 * current;
      last = now;
      rate.textContent = running ? TEXT.camera.rate(smoothed) : "";
    }
    return TEXT.camera.stopped;
  }

  function shut(): void {
    stop();
    for (const track of stream?.getTracks() ?? []) {
      track.stop();
    }
    stream = undefined;
    video.srcObject = null;
    panel.hidden = true;
  }

  async function open(): Promise<void> {
    if (stream || opening) {
      return;
    }
    opening = true;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        audio: false,
        video: { facingMode: options.live ? "user" : "environment", width: { ideal: 1280 } },
      });
      stream.getVideoTracks()[0]?.addEventListener("ended", shut);
      video.srcObject = stream;
      panel.hidden = false;
      await video.play();
      take.focus();
    } catch (error) {
      shut();
      page.fault(asFault(error));
    } finally {
      opening = false;
    }
  }

  addEventListener("pagehide", shut);
  return { open: () => void open(), stop };
}

const REFUSED = new Set(["NotAllowedError", "SecurityError"]);
const MISSING = new Set([
  "NotFoundError",
  "NotReadableError",
  "OverconstrainedError",
  "AbortError",
]);

function asFault(error: unknown): unknown {
  const name = error instanceof DOMException ? error.name : "";
  if (REFUSED.has(name)) {
    return new InputFault(TEXT.error.cameraRefused);
  }
  return MISSING.has(name) ? new InputFault(TEXT.error.cameraMissing) : error;
}
