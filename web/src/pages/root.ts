/** The site's root: scripts lie in assets/. */
export const ROOT = new URL("../", import.meta.url);
