/** What a model page offers a task, and what a task gives back. */
import type { ErrorText } from "../pages/text.ts";
import type { Manifest, RunResult, TensorLike } from "../runtime/index.ts";

/** A fault that a visitor can mend: shown as it is, with no retry of the model. */
export class InputFault extends Error {
  readonly text: ErrorText;

  constructor(text: ErrorText) {
    super(text.message);
    this.name = "InputFault";
    this.text = text;
  }
}

/**
 * Work on one input. Whatever it throws is shown, unless a later input has taken its place. What it
 * returns is said at its end, in the place of the time that the last run took.
 */
export type Work = (turn: Turn) => Promise<string | undefined>;

export interface Turn {
  /** Aborted when a later input takes this one's place. */
  readonly signal: AbortSignal;
  /** Run the model on `inputs`, once it is loaded; `live` runs aren't announced one by one. */
  run(inputs: Record<string, TensorLike>, live?: boolean): Promise<RunResult>;
  /** Say what is being done. */
  say(message: string): void;
}

export interface Page {
  readonly manifest: Manifest;
  /** The site's root, to which the manifest's paths are relative. */
  readonly root: URL;
  readonly input: HTMLElement;
  readonly result: HTMLElement;
  /** The whole try-it area, where files may be dropped. */
  readonly drop: HTMLElement;
  /** Do `work` in place of any that is still going on; resolves to whether it ended well. */
  take(work: Work): Promise<boolean>;
  /** Show a fault that no work is to blame for. */
  fault(fault: unknown): void;
}

/** Build a task's controls in the page's input and result areas. */
export type Task = (page: Page) => void;
