/** The lines to copy: with this site's own address in them. */
import { byId } from "./dom.ts";
import { TEXT } from "./text.ts";

const SHOWN_FOR = 2000;

export function startCode(root: URL): void {
  const code = byId("code", HTMLPreElement);
  for (const place of code.querySelectorAll("[data-address]")) {
    place.textContent = root.href;
  }
  const copy = byId("copy", HTMLButtonElement);
  const label = copy.textContent;
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    copy.textContent = (await copied(code.textContent)) ? TEXT.copy.done : TEXT.copy.failed;
    setTimeout(() => {
      copy.textContent = label;
    }, SHOWN_FOR);
  });
}

/** Insecure origins have no clipboard, and a visitor may refuse it. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
