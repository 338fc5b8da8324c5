/**
 * The service worker of a site. It serves pages, manifests and scripts of one version from its own
 * cache, so that a page never mixes two, and works offline. Weights pass it by: the runtime keeps
 * those itself. On hosts that send no such headers it can isolate pages, for threads on WASM.
 *
 * A new version installs completely beside the one in use, every file held against its hash, and
 * waits until no page uses the old one or the visitor asks for it.
 */
import { keep, plainHeaders } from "./files.ts";
import { filesCache, ownPrefix, shellCache, TAKE_OVER, wantsIsolation } from "./names.ts";

interface Site {
  /** Changes with anything below and with this script. */
  readonly version: string;
  /** Paths below the site's root with the integrity of their content: one version of the site. */
  readonly shell: readonly (readonly [path: string, integrity: string])[];
  /** Paths of small content-named files, kept as soon as they are asked for. */
  readonly files: readonly string[];
}

/** Put before this script when a site is built; null for a site that has no service worker. */
declare const SITE: Site | null;

interface LaterEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}

interface AskedEvent extends LaterEvent {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
}

interface Scope {
  readonly registration: ServiceWorkerRegistration;
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: LaterEvent) => void): void;
  addEventListener(type: "fetch", listener: (event: AskedEvent) => void): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

const worker = globalThis as unknown as Scope;
const scope = worker.registration.scope;
const NOT_FOUND = "404.html";

const ISOLATION = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
};

function serve(site: Site): void {
  const shell = new Set(site.shell.map(([path]) => path));
  const files = new Set(site.files);
  const shellName = shellCache(scope, site.version);

  worker.addEventListener("install", (event) => event.waitUntil(install(site, shellName)));
  worker.addEventListener("activate", (event) => event.waitUntil(tidy(shellName, files)));
  worker.addEventListener("message", ({ data }) => {
    if (data === TAKE_OVER) void worker.skipWaiting();
  });
  worker.addEventListener("fetch", (event) => {
    const { request } = event;
    const path = pathOf(request);
    if (path === undefined) return;
    if (shell.has(path)) {
      event.respondWith(fromShell(shellName, path, request));
    } else if (files.has(path)) {
      event.respondWith(fromFiles(event));
    } else if (request.mode === "navigate") {
      event.respondWith(navigate(shellName, shell.has(`${path}/`), request));
    }
  });
}

/** The path below the site's root of what we may answer; pages by their folders. */
function pathOf({ method, headers, url, cache, mode }: Request): string | undefined {
  if (method !== "GET" || headers.has("range")) return undefined;
  // Asked for by developer tools; a service worker can't answer it.
  if (cache === "only-if-cached" && mode !== "same-origin") return undefined;
  const { origin, pathname } = new URL(url);
  const root = new URL(scope);
  if (origin !== root.origin || !pathname.startsWith(root.pathname)) return undefined;
  return pathname.slice(root.pathname.length).replace(/(^|\/)index\.html$/, "$1");
}

/**
 * Every file or none. The integrity makes a file of another version, or one that the host has
 * changed, fail the installation: the version in use then stays in use.
 */
async function install({ shell }: Site, name: string): Promise<void> {
  const cache = await caches.open(name);
  try {
    await Promise.all(
      shell.map(async ([path, integrity]) => {
        const response = await fetch(new URL(path, scope), { integrity, cache: "no-cache" });
        // Made anew: an answer that came by way of a redirect may not be given to a navigation.
        const headers = plainHeaders(response);
        await cache.put(
          new URL(path, scope),
          new Response(await response.arrayBuffer(), { headers }),
        );
      }),
    );
  } catch (error) {
    await caches.delete(name);
    throw error;
  }
}

/** Remove other versions, and files that this one has no more. */
async function tidy(shellName: string, files: ReadonlySet<string>): Promise<void> {
  for (const name of await caches.keys()) {
    if (name.startsWith(`${ownPrefix(scope)}shell `) && name !== shellName) {
      await caches.delete(name);
    }
  }
  const cache = await caches.open(filesCache(scope));
  for (const request of await cache.keys()) {
    if (!files.has(pathOf(request) ?? "")) await cache.delete(request);
  }
}

/** From this version's cache; the network where the browser has lost it. */
async function fromShell(name: string, path: string, request: Request): Promise<Response> {
  const found = await lookUp(name, new URL(path, scope).href);
  return finish(found ?? (await fetch(request)));
}

async function fromFiles(event: AskedEvent): Promise<Response> {
  const { request } = event;
  const url = request.url.replace(/[?#].*$/, "");
  const found = await lookUp(filesCache(scope), url);
  if (found) return finish(found);
  const response = await fetch(request);
  const copy = response.clone();
  // Whether it can be kept doesn't matter to the page.
  const kept = caches.open(filesCache(scope)).then((cache) => keep(cache, url, copy));
  event.waitUntil(kept.catch(() => false));
  return finish(response);
}

/** A page that isn't of this version: the host knows; offline, it isn't there. */
async function navigate(name: string, isFolder: boolean, request: Request): Promise<Response> {
  try {
    return await finish(await fetch(request));
  } catch (error) {
    if (isFolder) {
      const { origin, pathname, search } = new URL(request.url);
      return Response.redirect(`${origin}${pathname}/${search}`);
    }
    const page = await lookUp(name, new URL(NOT_FOUND, scope).href);
    if (!page) throw error;
    return finish(new Response(page.body, { status: 404, headers: page.headers }));
  }
}

/** What a cache holds; nothing where the browser refuses to say. */
async function lookUp(name: string, url: string): Promise<Response | undefined> {
  try {
    return await (await caches.open(name)).match(url);
  } catch {
    return undefined;
  }
}

/** An answer with the headers that isolate, if they are wanted. */
async function finish(response: Response): Promise<Response> {
  // Redirects that the browser follows itself can't be read, nor made anew.
  if (response.type === "opaqueredirect" || response.type === "error") return response;
  if (!(await wantsIsolation(scope).catch(() => false))) return response;
  const { status, statusText, body } = response;
  const headers = plainHeaders(response);
  for (const [header, value] of Object.entries(ISOLATION)) headers.set(header, value);
  return new Response(body, { status, statusText, headers });
}

/** Take the place of an earlier version, and leave nothing behind. */
function retire(): void {
  worker.addEventListener("install", (event) => event.waitUntil(worker.skipWaiting()));
  worker.addEventListener("activate", (event) => {
    const own = (name: string) => name.startsWith(ownPrefix(scope));
    const emptied = caches
      .keys()
      .then((names) => Promise.all(names.filter(own).map((name) => caches.delete(name))));
    event.waitUntil(emptied.then(() => worker.registration.unregister()));
  });
}

if (SITE) {
  serve(SITE);
} else {
  retire();
}
