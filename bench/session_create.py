"""Creating sessions on WASM: the graph optimised ahead against the one that the page optimises.

    PYTHONPATH=. .venv/bin/python -m builder build zoo:efficientnet-lite0 --dtype fp32,int8 -o site
    PYTHONPATH=. .venv/bin/python bench/session_create.py site

Every session is created in a worker of its own in Chromium, one thread, as on a page: the runtime's
code is cold then, and that is most of the time. A small graph goes first, so that starting the
runtime isn't counted. Both graphs of a variant take turns; figures are the minima in milliseconds,
medians in parentheses; ratios are to the graph as it is, optimised in the page.

For MiniLM: `bench.precision.minilm.case().model` names the file to build.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import rich_click as click
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from bench.wasm_latency import served
from builder.verify import launch

WORKER = """
const read = async (path) => new Uint8Array(await (await fetch("/" + path)).arrayBuffer());
const joined = async (blob) => {
  const whole = new Uint8Array(blob.size);
  let offset = 0;
  for (const { path, size } of blob.shards) {
    whole.set(await read(path), offset);
    offset += size;
  }
  return whole;
};
onmessage = async ({ data: [flavour, { graph, weights, level }, reference, names] }) => {
  try {
    const ort = await import("/" + flavour.api.path);
    ort.env.logLevel = "error";
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = (await joined(flavour.wasm)).buffer;
    ort.env.wasm.wasmPaths = { mjs: "/" + flavour.glue.path };
    const kinds = { float32: Float32Array, uint8: Uint8Array, int64: BigInt64Array,
      int32: Int32Array, bool: Uint8Array };
    const content = await read(reference.file.path);
    const stored = [...reference.inputs, ...reference.stages.flatMap(({ outputs }) => outputs)];
    const feeds = {};
    for (const { name, dtype, offset, size, shape } of stored) {
      const data = new kinds[dtype](content.buffer.slice(offset, offset + size));
      if (names.includes(name)) feeds[name] = new ort.Tensor(dtype, data, shape);
    }
    const bytes = await read(graph.path);
    const externalData = [];
    for (const blob of weights) externalData.push({ path: blob.name, data: await joined(blob) });
    await ort.InferenceSession.create("/tiny.onnx", { executionProviders: ["wasm"] });
    const started = performance.now();
    const session = await ort.InferenceSession.create(bytes, {
      executionProviders: ["wasm"], externalData, graphOptimizationLevel: level,
      logSeverityLevel: 3 });
    const create = performance.now() - started;
    const runs = [];
    for (let round = 0; round < 12; round++) {
      const started = performance.now();
      await session.run(feeds);
      runs.push(performance.now() - started);
    }
    postMessage({ create, first: runs[0], run: Math.min(...runs) });
  } catch (error) {
    postMessage({ error: String(error) });
  }
};
"""

RUN = """
const [flavour, jobs, rounds, reference, names] = args;
const found = jobs.map(() => []);
for (let round = 0; round < rounds; round++) {
  for (const [index, job] of jobs.entries()) {
    const worker = new Worker("/worker.js", { type: "module" });
    const answer = await new Promise((done) => {
      worker.onmessage = ({ data }) => done(data);
      worker.postMessage([flavour, job, reference, names]);
    });
    worker.terminate();
    if (answer.error) throw new Error(answer.error);
    found[index].push(answer);
  }
}
return found;
"""

FIGURES = ("create", "first", "run")


def tiny() -> bytes:
    """A graph whose session costs nothing but the runtime's start."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def measure(site: Path, manifest: Any, variant: Any, rounds: int) -> list[list[dict[str, float]]]:
    """Milliseconds of `FIGURES`, for each round: of the plain graph, then of the optimised one."""
    stage = next(stage for stage in manifest["stages"] if stage["kind"] == "model")
    flavour = next(f for f in manifest["runtime"]["flavours"] if f["name"] == "wasm")
    plain = {"graph": variant["graph"], "weights": variant["weights"], "level": "all"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "site"
        shutil.copytree(site, root)
        (root / "index.html").write_text("<!doctype html><title>bench</title>")
        (root / "worker.js").write_text(WORKER)
        (root / "tiny.onnx").write_bytes(tiny())
        with served(root) as url, launch("chromium", webgpu=False) as browser:
            browser.goto(url)
            names = [spec["name"] for spec in stage["inputs"]]
            jobs = [plain, variant["optimised"]]
            found: list[list[dict[str, float]]] = browser.evaluate(
                RUN, flavour, jobs, rounds, manifest["references"][0], names
            )
            return found


@click.command()
@click.argument("site", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=10, show_default=True)
def main(site: Path, rounds: int) -> None:
    """Measure every variant of a built SITE that has a graph optimised ahead."""
    table = Table("model", "variant", "graph", *(f"{f} ms" for f in FIGURES), "ratio", box=None)
    for path in sorted(site.glob("models/*/manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        variants = [v for stage in manifest["stages"] for v in stage["variants"]]
        for variant in (v for v in variants if "optimised" in v):
            both = measure(site, manifest, variant, rounds)
            least = min(round_["create"] for round_ in both[0])
            for label, found in zip(("as it is", "ahead"), both, strict=True):
                times = {f: [round_[f] for round_ in found] for f in FIGURES}
                cells = [f"{min(ms):.0f} ({median(ms):.0f})" for ms in times.values()]
                ratio = f"{min(times['create']) / least:.2f}"
                table.add_row(manifest["id"], variant["name"], label, *cells, ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
