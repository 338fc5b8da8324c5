/** Addresses of scripts under a policy that demands trusted types. */

interface Policy {
  createScriptURL(url: string): unknown;
}

interface Factory {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): Policy;
}

/**
 * The address of a script of this site, as the browser wants it.
 *
 * @throws TypeError if it lies on another origin.
 */
export function scriptUrl(url: URL): string {
  if (url.origin !== location.origin) {
    throw new TypeError(`${url.href} isn't of this site.`);
  }
  const { trustedTypes } = globalThis as { trustedTypes?: Factory };
  policy ??= trustedTypes?.createPolicy("onnxsite-page", { createScriptURL: (given) => given });
  // TypeScript's own types still say string everywhere.
  return (policy?.createScriptURL(url.href) ?? url.href) as string;
}

let policy: Policy | undefined;
