/** What every page does: keeps the site for offline use, and tells of a new version. */
import { TAKE_OVER } from "../offline/names.ts";
import { button, h } from "./dom.ts";
import { ROOT } from "./root.ts";
import { TEXT } from "./text.ts";
import { scriptUrl } from "./trusted.ts";

async function keepSite(workers: ServiceWorkerContainer): Promise<void> {
  const before = workers.controller;
  workers.addEventListener("controllerchange", () => {
    // Another version has taken over: what this page would still ask for may be gone.
    if (before) location.reload();
  });
  const registration = await workers.register(scriptUrl(new URL("sw.js", ROOT)), {
    scope: ROOT.pathname,
    // The browser's own cache is never asked for it.
    updateViaCache: "none",
  });
  const watch = () => {
    const { installing } = registration;
    installing?.addEventListener("statechange", () => offer(registration));
  };
  offer(registration);
  // It may have been found before this page could listen.
  watch();
  registration.addEventListener("updatefound", watch);
}

/** Say that a version waits, if one does: the first one ever doesn't. */
function offer({ waiting, active }: ServiceWorkerRegistration): void {
  if (!waiting || !active || document.getElementById("update")) {
    return;
  }
  const reload = button(TEXT.update.reload, () => waiting.postMessage(TAKE_OVER), {
    class: "button small primary",
    "data-testid": "update",
  });
  document.body.append(
    h(
      "div",
      { class: "update", id: "update", role: "status" },
      h("p", {}, TEXT.update.ready),
      reload,
    ),
  );
}

if (navigator.serviceWorker) {
  keepSite(navigator.serviceWorker).catch((error: unknown) => {
    // The page works all the same, as long as there is a connection.
    console.info(`onnxsite: the site isn't kept for offline use (${String(error)}).`);
  });
}
