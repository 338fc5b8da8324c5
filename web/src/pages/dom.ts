/** The few DOM helpers that pages and tasks share. */

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
type Child = Node | string | undefined;

/** Create an element: attributes by name (`true` sets an empty one, `false` none), then children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** The element that the page's template promises under `id`. */
export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) {
    throw new TypeError(`The page has no ${type.name} #${id}: template and script differ.`);
  }
  return element;
}

/** A button of the page's style; `click` may be asynchronous if it handles its own errors. */
export function button(label: string, click: () => void, attributes: Attributes = {}) {
  const element = h("button", { type: "button", class: "button", ...attributes }, label);
  element.addEventListener("click", click);
  return element;
}

/** A table with a caption, headed columns and rows of texts or nodes. */
export function table(
  caption: string,
  columns: readonly string[],
  rows: readonly HTMLTableRowElement[],
): HTMLElement {
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows),
    ),
  );
}

/** A table row of texts or nodes. */
export function row(cells: readonly Child[], attributes: Attributes = {}): HTMLTableRowElement {
  return h("tr", attributes, ...cells.map((cell) => h("td", {}, cell)));
}

/** Offer `content` to the visitor as a download. */
export function download(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  // The browser reads the address after this turn of the event loop.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A canvas's 2d context; browsers refuse one only when they are out of memory. */
export function context2d(
  canvas: HTMLCanvasElement,
  settings?: CanvasRenderingContext2DSettings,
): CanvasRenderingContext2D {
  const context = canvas.getContext("2d", settings);
  if (context === null) {
    throw new Error("The browser gives no 2d canvas.");
  }
  return context;
}
