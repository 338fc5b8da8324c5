/** How esbuild compiles everything that runs in a browser. */
export const OPTIONS = {
  bundle: true,
  format: "esm",
  legalComments: "inline",
  minify: true,
  platform: "browser",
  target: ["es2022"],
};
