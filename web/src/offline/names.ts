/**
 * What page and service worker both keep in the Cache API. An origin may hold many sites, as
 * https://you.github.io/ does: the scope, the site's root, tells their caches apart.
 */

/** Pages, manifests and scripts of one version. */
export const shellCache = (scope: string, version: string) => `onnxsite ${scope} shell ${version}`;

/** Small files named by their content: the runtime's scripts, samples and references. */
export const filesCache = (scope: string) => `onnxsite ${scope} files`;

/** What the visitor has chosen, by `settingUrl`. */
export const settingsCache = (scope: string) => `onnxsite ${scope} settings`;

/** Every cache of a site: what all of the names above start with. */
export const ownPrefix = (scope: string) => `onnxsite ${scope} `;

/** Whether the service worker isolates pages. Not an address of the site: only a key. */
export const isolateUrl = (scope: string) => new URL("?setting=isolate", scope).href;

/** The message on which a waiting version takes over. */
export const TAKE_OVER = "take over";

/** Whether the visitor or the site wants pages isolated. */
export async function wantsIsolation(scope: string): Promise<boolean> {
  const cache = await caches.open(settingsCache(scope));
  return (await cache.match(isolateUrl(scope))) !== undefined;
}

export async function wantIsolation(scope: string, wanted: boolean): Promise<void> {
  const cache = await caches.open(settingsCache(scope));
  if (wanted) {
    await cache.put(isolateUrl(scope), new Response("1"));
  } else {
    await cache.delete(isolateUrl(scope));
  }
}
