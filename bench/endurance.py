"""Does memory grow? Many runs, and many times loading and disposing, on a built site.

    PYTHONPATH=. .venv/bin/python bench/endurance.py site --runs 1000 --cycles 50

The stored reference is the input. Samples are the resident memory (RSS) of all processes of the
browser that hold pages, in MB, after a pause for the garbage collector. Growth is from the end of
the first tenth to the end: what is allocated once has been by then.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from builder.server import create_app, running
from builder.verify import Browser, launch

SAMPLES = 10

PREPARE = """
const [root, id, options] = args;
const { load } = await import(`${root}onnxsite.js`);
globalThis.open = () => load(`${root}models/${id}/`, options);
const model = await globalThis.open();
const reference = model.manifest.references[0];
const content = await (await fetch(root + reference.file.path)).arrayBuffer();
const kinds = { float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array };
globalThis.inputs = Object.fromEntries(reference.inputs.map((e) => [e.name, {
  data: new kinds[e.dtype](content.slice(e.offset, e.offset + e.size)), dims: e.shape }]));
globalThis.model = model;
"""

RUNS = """
for (let run = 0; run < args[0]; run++) await globalThis.model.run(globalThis.inputs);
await new Promise((done) => setTimeout(done, 1000));
"""

CYCLES = """
for (let cycle = 0; cycle < args[0]; cycle++) {
  const model = await globalThis.open();
  await model.run(globalThis.inputs);
  await model.dispose();
}
await new Promise((done) => setTimeout(done, 1000));
"""


def processes(roots: set[int]) -> Iterator[Path]:
    """Folders in /proc of every process below some."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            parents[int(entry.name)] = int(fields[1])
    found, fresh = set(roots), set(roots)
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
    yield from (Path("/proc", str(pid)) for pid in sorted(found - roots))


def pages() -> float:
    """RSS in MB of the processes of this one's browser that hold pages."""
    total = 0
    for process in processes({os.getpid()}):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\\0", b" ")
            if b"--type=renderer" in words or b"-contentproc" in words:
                pages_ = int((process / "statm").read_text().split()[1])
                total += pages_ * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total / 1e6


def sampled(browser: Browser, body: str, count: int) -> list[float]:
    """Do something `count` times, and give the memory before and after every tenth of them."""
    samples = [pages()]
    for index in range(SAMPLES):
        batch = count * (index + 1) // SAMPLES - count * index // SAMPLES
        if batch:
            browser.evaluate(body, batch)
            samples.append(pages())
    return samples


@click.command()
@click.argument("site", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--model", "wanted", help="Id; every model of the site unless given.")
@click.option("--engine", type=click.Choice(["chromium", "firefox"]), default="chromium")
@click.option("--device", type=click.Choice(["auto", "wasm", "webgpu"]), default="wasm")
@click.option("--runs", default=1000, show_default=True)
@click.option("--cycles", default=50, show_default=True)
def main(site: Path, wanted: str | None, engine: str, device: str, runs: int, cycles: int) -> None:
    """Run, load and dispose models of a built SITE, and watch the browser's memory."""
    table = Table("model", "what", "s", "MB, every tenth", "growth MB", "each kB", box=None)
    with running(create_app(site)) as url:
        for path in sorted(site.glob("models/*/manifest.json")):
            manifest: Any = json.loads(path.read_text(encoding="utf-8"))
            if wanted and manifest["id"] != wanted:
                continue
            with launch(engine, webgpu=device != "wasm") as browser:
                browser.goto(f"{url}404.html")
                browser.evaluate(PREPARE, url, manifest["id"], {"device": device})
                for what, body, count in (("runs", RUNS, runs), ("loads", CYCLES, cycles)):
                    started = time.monotonic()
                    samples = sampled(browser, body, count)
                    growth = samples[-1] - samples[1]
                    table.add_row(
                        manifest["id"],
                        f"{count} {what}",
                        f"{time.monotonic() - started:.0f}",
                        " ".join(f"{sample:.0f}" for sample in samples),
                        f"{growth:+.1f}",
                        f"{1000 * growth / max(1, count - count // SAMPLES):+.1f}",
                    )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
