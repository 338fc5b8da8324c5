/**
 * Make the npm package of the runtime: `node package.mjs [OUTDIR]`. ES module and worker,
 * declarations of what is exported, documentation and licences; nothing to install with it, nothing
 * to bundle. The same input gives the same bytes.
 */
import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { OPTIONS } from "./options.mjs";

const WEB = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(WEB);
const OUT = resolve(process.argv[2] ?? join(WEB, "dist"));
const RUNTIME = join(WEB, "src", "runtime");
const WORKER = "worker.js";
const SCHEMA = "manifest.schema.json";

const compile = (entry, to, define = {}) =>
  build({
    ...OPTIONS,
    define,
    entryPoints: [join(RUNTIME, entry)],
    // Readable, and with the comments by which bundlers know what to leave alone.
    minify: false,
    outfile: join(OUT, to),
  });

/** Declarations of the entry and of all that it names: the rest stays inside. */
async function declare() {
  const folder = await mkdtemp(join(tmpdir(), "onnxsite-types-"));
  const tsc = join(WEB, "node_modules", "typescript", "bin", "tsc");
  const options = ["-p", join(WEB, "tsconfig.package.json"), "--outDir", folder];
  execFileSync(process.execPath, [tsc, ...options], { stdio: "inherit" });
  const found = ["index"];
  for (const name of found) {
    const text = await readFile(join(folder, `${name}.d.ts`), "utf8");
    const named = text.replace(/(from "\.\/)([\w.-]+)\.ts"/g, (_, start, other) => {
      if (!found.includes(other)) found.push(other);
      return `${start}${other}.js"`;
    });
    await writeFile(join(OUT, `${name}.d.ts`), named);
  }
  await rm(folder, { recursive: true });
}

/** The reference part of README.md below an introduction of its own. */
async function document() {
  const [intro, readme] = await Promise.all(
    ["npm.md", "README.md"].map((name) => readFile(join(WEB, name), "utf8")),
  );
  const reference = readme.slice(readme.indexOf("## `load("), readme.indexOf("## Working on it"));
  const text = `${intro}\n${reference}`.trimEnd();
  await writeFile(join(OUT, "README.md"), `${text.replaceAll(/\(\.\.\/.*\/(?=manifest)/g, "(")}\n`);
  await cp(join(ROOT, "LICENSE"), join(OUT, "LICENSE"));
  await cp(join(ROOT, "builder", "bundle", SCHEMA), join(OUT, SCHEMA));
  const hashes = await readFile(join(WEB, "node_modules", "@noble", "hashes", "LICENSE"), "utf8");
  await writeFile(join(OUT, "THIRD-PARTY-LICENSES"), `@noble/hashes\n\n${hashes}`);
}

async function describe() {
  const { name, version, license } = JSON.parse(await readFile(join(WEB, "package.json"), "utf8"));
  const description = {
    name,
    version,
    description: "Run the models of an onnxsite site in the browser, on WebGPU or WASM.",
    keywords: ["onnx", "onnxruntime-web", "webgpu", "wasm", "machine-learning"],
    license,
    type: "module",
    sideEffects: false,
    types: "./index.d.ts",
    exports: {
      ".": { types: "./index.d.ts", default: "./index.js" },
      [`./${WORKER}`]: `./${WORKER}`,
      [`./${SCHEMA}`]: `./${SCHEMA}`,
      "./package.json": "./package.json",
    },
    files: ["*.js", "*.d.ts", SCHEMA, "THIRD-PARTY-LICENSES"],
  };
  await writeFile(join(OUT, "package.json"), `${JSON.stringify(description, null, 2)}\n`);
}

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT, { recursive: true });
await compile("worker.ts", WORKER);
await compile("index.ts", "index.js", { WORKER_NAME: JSON.stringify(WORKER) });
await declare();
await document();
await describe();
