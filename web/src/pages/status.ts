/** The line that says what is going on, for eyes and screen readers. */
import { byId } from "./dom.ts";

export type State = "loading" | "ready" | "running" | "error" | "idle";

export class Status {
  readonly #element = byId("status", HTMLParagraphElement);

  get state(): State {
    return this.#element.dataset.state as State;
  }

  /** Unchanged words are left alone, so that a screen reader doesn't repeat them. */
  set(state: State, message: string): void {
    this.#element.dataset.state = state;
    if (this.#element.textContent !== message) {
      this.#element.textContent = message;
    }
  }
}
