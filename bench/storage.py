"""Bytes back from the browser's storage on a warm visit, verified: beside what else keeps files.

    .venv/bin/python -m bench.storage [--rounds 7]

The model is MiniLM in fp32, 90 MB of weights, with onnxruntime-web's own 13 MB. What is measured is
the time until every byte lies where sessions are created from:

- onnxsite: `model.info.timings.download` of a warm load: the origin's private file system, read and
  held against SHA-256, with importing the runtime's script;
- the Cache API, as transformers.js keeps models, and the HTTP cache, as a plain page has them: the
  same shards into one buffer each, in a worker, nothing verified.

Every round is a new page of one Chromium profile on the disk. Figures are the minima, medians in
parentheses, in milliseconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import rich_click as click
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.precision import minilm
from bench.precision.case import cached
from builder import pipeline, plan
from builder.recipe import ModelRecipe, Recipe
from builder.server import create_app, running
from builder.verify.engines import find

OURS = """async (root) => {
  const { load } = await import(`${root}onnxsite.js`);
  const model = await load(`${root}models/minilm/`, { device: "wasm" });
  const { timings, downloaded } = model.info;
  await model.dispose();
  return { milliseconds: timings.download, downloaded };
}"""

OTHER = """async ([paths, kept]) => {
  const code = `onmessage = async ({ data: [urls, kept] }) => {
    const cache = await caches.open("bench");
    const started = performance.now();
    const buffers = await Promise.all(urls.map(async (url) => {
      const found = kept ? await cache.match(url) : await fetch(url, { cache: "force-cache" });
      if (found) return found.arrayBuffer();
      const fresh = await fetch(url);
      await cache.put(url, fresh.clone());
      return fresh.arrayBuffer();
    }));
    let offset = 0;
    const whole = new Uint8Array(buffers.reduce((sum, { byteLength }) => sum + byteLength, 0));
    for (const buffer of buffers) {
      whole.set(new Uint8Array(buffer), offset);
      offset += buffer.byteLength;
    }
    postMessage({ milliseconds: performance.now() - started, downloaded: 0 });
  };`;
  const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const answer = await new Promise((done) => {
    worker.onmessage = ({ data }) => done(data);
    worker.postMessage([paths, kept]);
  });
  worker.terminate();
  return answer;
}"""


def shards(manifest: Any) -> Iterator[dict[str, Any]]:
    """Every file of weights and of the runtime that a warm load on WASM reads."""
    (stage,) = [stage for stage in manifest["stages"] if stage["kind"] == "model"]
    (variant,) = stage["variants"]
    (flavour,) = [f for f in manifest["runtime"]["flavours"] if f["name"] == "wasm"]
    read = variant.get("optimised", variant)
    yield read["graph"]
    for blob in (*read["weights"], flavour["wasm"]):
        yield from blob["shards"]


@click.command()
@click.option("--rounds", default=7, show_default=True)
def main(rounds: int) -> None:
    """Build MiniLM, visit it, and read it back."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        source = str(cached(minilm.MODEL, minilm.export))
        recipe = Recipe(models=[ModelRecipe(id="minilm", source=source)])
        asked = plan.make(
            [], Path(folder, "site"), recipe=recipe, flags=plan.Flags(dtypes=["fp32"])
        )
        (manifest,) = pipeline.run(asked).manifests
        files = list(shards(manifest))
        with running(create_app(Path(folder, "site"))) as root:
            urls = [root + file["path"] for file in files]
            ways: dict[str, tuple[str, Any]] = {
                "onnxsite": (OURS, root),
                "Cache API": (OTHER, [urls, True]),
                "HTTP cache": (OTHER, [urls, False]),
            }
            context = playwright.chromium.launch_persistent_context(
                Path(folder, "profile"), executable_path=find("chromium"), args=["--no-sandbox"]
            )
            times: dict[str, list[float]] = {name: [] for name in ways}
            for round_ in track(range(rounds + 1)):
                for name, (script, argument) in ways.items():
                    page: Page = context.new_page()
                    page.goto(f"{root}404.html")
                    answer = page.evaluate(script, argument)
                    page.close()
                    if round_ == 0:
                        continue  # it fills the storage
                    if answer["downloaded"]:
                        raise RuntimeError(f"{name} had {answer['downloaded']} bytes to download")
                    times[name].append(answer["milliseconds"])
            context.close()
    table = Table("kept by", "MB", "ms", box=None)
    for name, found in times.items():
        size = sum(file["size"] for file in files) / 1e6
        table.add_row(name, f"{size:.1f}", f"{min(found):.0f} ({median(found):.0f})")
    Console().print(table)


if __name__ == "__main__":
    main()
