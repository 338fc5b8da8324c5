/**
 * Compile `web/` and `static/` into a folder that the Python builder copies from, and vendor the
 * pinned onnxruntime-web beside it: `node build.mjs OUTDIR`. The same input gives the same bytes.
 */
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { compile } from "json-schema-to-typescript";
import { OPTIONS } from "./options.mjs";

const WEB = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(WEB);
const OUT = resolve(process.argv[2] ?? join(ROOT, "builder", "_web"));
const SCHEMA = join(ROOT, "builder", "bundle", "manifest.schema.json");
const ORT = join(WEB, "node_modules", "onnxruntime-web");

/** The runtime's builds by our names: its JavaScript interface, its glue and its wasm. */
const FLAVOURS = {
  wasm: ["ort.wasm.min.mjs", "ort-wasm-simd-threaded"],
  jspi: ["ort.jspi.min.mjs", "ort-wasm-simd-threaded.jspi"],
  asyncify: ["ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify"],
};

const assets = {};

async function generateTypes() {
  const schema = JSON.parse(await readFile(SCHEMA, "utf8"));
  const source = await compile(schema, "Manifest", {
    additionalProperties: false,
    bannerComment: "/* Made from manifest.schema.json by build.mjs. */",
    format: false,
    unreachableDefinitions: true,
  });
  await writeFile(join(WEB, "src", "runtime", "manifest.gen.ts"), source);
}

/** Write `content` under a name that changes with it, and remember it as `name`. */
async function writeAsset(name, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const extension = extname(name);
  const path = `assets/${basename(name, extension)}-${hash}${extension}`;
  await mkdir(join(OUT, "assets"), { recursive: true });
  await writeFile(join(OUT, path), content);
  assets[name] = path;
  return path;
}

/** The runtime module is one file that pages import, so that a visitor loads it once. */
const importTheRuntime = {
  name: "import-the-runtime",
  setup(builder) {
    builder.onResolve({ filter: /\/runtime\/index\.ts$/ }, (found) =>
      found.kind === "entry-point"
        ? undefined
        : { path: `./${basename(assets["onnxsite.js"])}`, external: true },
    );
  },
};

async function bundle(name, entry, options = {}) {
  const result = await build({ ...OPTIONS, write: false, entryPoints: [entry], ...options });
  await writeAsset(name, result.outputFiles[0].contents);
}

async function compileScripts() {
  const runtime = join(WEB, "src", "runtime");
  await bundle("worker.js", join(runtime, "worker.ts"));
  // The worker's name is a constant of the module that starts it: both change together.
  const define = { WORKER_NAME: JSON.stringify(basename(assets["worker.js"])) };
  await bundle("onnxsite.js", join(runtime, "index.ts"), { define });
  await writeFile(join(OUT, "onnxsite.js"), `export * from "./${assets["onnxsite.js"]}";\n`);
  const pages = join(WEB, "src", "pages");
  const entries = ["model.ts", "gallery.ts", "site.ts", "storage.ts"];
  for (const file of (await readdir(pages)).filter((name) => entries.includes(name)).sort()) {
    await bundle(file.replace(/\.ts$/, ".js"), join(pages, file), { plugins: [importTheRuntime] });
  }
}

/** Not named by its content: browsers look for a new version at the same address. */
async function compileServiceWorker() {
  const entry = join(WEB, "src", "offline", "sw.ts");
  // Not a module: not every browser takes one here.
  const options = { ...OPTIONS, write: false, entryPoints: [entry], format: "iife" };
  const result = await build(options);
  await writeFile(join(OUT, "sw.js"), result.outputFiles[0].contents);
}

async function compileStatic() {
  const folder = join(ROOT, "static");
  await bundle("style.css", join(folder, "style.css"), { external: ["*.svg"] });
  const icons = join(folder, "icons");
  for (const file of (await readdir(icons)).sort()) {
    await writeAsset(`icons/${file}`, await readFile(join(icons, file)));
  }
}

async function vendorRuntime() {
  const description = JSON.parse(await readFile(join(ORT, "package.json"), "utf8"));
  const flavours = [];
  for (const [name, [api, stem]] of Object.entries(FLAVOURS)) {
    const folder = join(OUT, "onnxruntime", name);
    await mkdir(folder, { recursive: true });
    const files = {
      api: [api, "api.mjs"],
      glue: [`${stem}.mjs`, "glue.mjs"],
      wasm: [`${stem}.wasm`, "ort.wasm"],
    };
    const entry = { name };
    for (const [role, [from, to]] of Object.entries(files)) {
      await cp(join(ORT, "dist", from), join(folder, to));
      entry[role] = relative(OUT, join(folder, to));
    }
    flavours.push(entry);
  }
  const { name, version, license, repository } = description;
  const notice = `${name} ${version}, licence ${license}, ${repository.url}\n`;
  await writeFile(join(OUT, "onnxruntime", "NOTICE"), notice);
  return { package: name, version, flavours };
}

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT, { recursive: true });
await generateTypes();
await compileScripts();
await compileServiceWorker();
await compileStatic();
const onnxruntime = await vendorRuntime();
const sorted = Object.fromEntries(Object.entries(assets).sort());
await writeFile(
  join(OUT, "web.json"),
  `${JSON.stringify({ assets: sorted, onnxruntime }, null, 1)}\n`,
);
