/** The box that says what went wrong, what to do, and lets one try again. */
import { InputFault } from "../tasks/task.ts";
import { button, byId, h } from "./dom.ts";
import { type ErrorText, TEXT } from "./text.ts";

/** Words for whatever was thrown. `title` is used where the error has none of its own. */
export function describe(error: unknown, title: string): ErrorText {
  if (error instanceof InputFault) {
    return error.text;
  }
  const message = error instanceof Error ? error.message : String(error);
  // By its form, not its class: the runtime is a module of its own.
  const advice = (error as { advice?: unknown } | null)?.advice;
  return {
    title,
    message,
    advice: typeof advice === "string" && advice !== "" ? advice : TEXT.error.unexpected.advice,
  };
}

export class FaultBox {
  readonly #box = byId("error", HTMLDivElement);

  /** Show `text`; with `retry`, a button for it. */
  show({ title, message, advice }: ErrorText, retry?: () => void): void {
    const parts = [
      h("p", { class: "notice-title" }, title),
      h("p", {}, message),
      h("p", {}, advice),
    ];
    const again = retry
      ? button(TEXT.retry, retry, { class: "button small", "data-testid": "retry" })
      : undefined;
    this.#box.replaceChildren(...parts, ...(again ? [again] : []));
    this.#box.hidden = false;
  }

  hide(): void {
    this.#box.hidden = true;
    this.#box.replaceChildren();
  }
}
