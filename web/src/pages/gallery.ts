/** The gallery's filter; the page is complete without it. */
import { byId } from "./dom.ts";
import { matches } from "./filter.ts";
import { TEXT } from "./text.ts";

const form = byId("filter", HTMLFormElement);
const field = byId("filter-text", HTMLInputElement);
const count = byId("filter-count", HTMLParagraphElement);
const none = byId("no-match", HTMLParagraphElement);
const cards = [...byId("cards", HTMLUListElement).children].filter(
  (card) => card instanceof HTMLElement,
);

function filter(): void {
  let shown = 0;
  for (const card of cards) {
    card.hidden = !matches(card.dataset.filter ?? "", field.value);
    shown += card.hidden ? 0 : 1;
  }
  none.hidden = shown > 0;
  count.textContent = field.value.trim() === "" ? "" : TEXT.gallery.count(shown, cards.length);
}

form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", filter);
// A browser may bring back what was typed before.
filter();
