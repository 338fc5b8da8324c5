"""Latency of graphs of one model on WASM, one thread: interleaved rounds in one page of Chromium.

    PYTHONPATH=. .venv/bin/python bench/wasm_latency.py stock.onnx ours.onnx --feeds feeds.npz

The first file is the stock one that ratios refer to. Every graph runs once in each round, so that
whatever else the machine does falls on all alike; figures are the minima, medians in parentheses.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import rich_click as click
from rich.console import Console
from rich.table import Table

from builder.verify import Browser, launch
from builder.webruntime.vendored import web

RUN = """
const [files, rounds, feeds] = args;
const ort = await import("/" + args[3].api);
ort.env.wasm.wasmPaths = { mjs: "/" + args[3].glue, wasm: "/" + args[3].wasm };
ort.env.wasm.numThreads = 1;
const kinds = {
  float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array,
  bool: Uint8Array,
};
const inputs = {};
for (const { name, dtype, dims, file } of feeds) {
  const content = await (await fetch(file)).arrayBuffer();
  inputs[name] = new ort.Tensor(dtype, new kinds[dtype](content), dims);
}
const sessions = [], creates = [];
for (const file of files) {
  const started = performance.now();
  sessions.push(await ort.InferenceSession.create(file, { executionProviders: ["wasm"] }));
  creates.push(performance.now() - started);
}
const times = files.map(() => []);
for (let round = 0; round < rounds + 2; round++) {
  for (const [index, session] of sessions.entries()) {
    const started = performance.now();
    await session.run(inputs);
    if (round >= 2) times[index].push(performance.now() - started);
  }
}
return { times, creates };
"""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A plain server of a folder; gives its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


def measure(
    graphs: list[Path], feeds: dict[str, np.ndarray[Any, Any]], rounds: int
) -> tuple[list[list[float]], list[float]]:
    """Milliseconds of each run of each graph, and of making each session.

    Args:
        graphs: ONNX files without external data.
        feeds: Inputs that all of them take.
        rounds: How often each runs, after two rounds to warm up.
    """
    flavours: list[Any] = list(web().onnxruntime["flavours"])  # type: ignore[call-overload]
    flavour = next(entry for entry in flavours if entry["name"] == "wasm")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path in (flavour["api"], flavour["glue"], flavour["wasm"]):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(web().root / path, root / path)
        (root / "index.html").write_text("<!doctype html><title>bench</title>")
        names = []
        for index, graph in enumerate(graphs):
            names.append(f"{index}.onnx")
            shutil.copyfile(graph, root / names[-1])
        described = []
        for index, (name, array) in enumerate(feeds.items()):
            (root / f"{index}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
            kind = {"dtype": array.dtype.name, "dims": list(array.shape)}
            described.append({"name": name, "file": f"{index}.bin", **kind})
        with served(root) as url, launch("chromium", webgpu=False) as browser:
            browser.goto(url)
            result = _run(browser, names, rounds, described, flavour)
    return result["times"], result["creates"]


def _run(browser: Browser, names: list[str], rounds: int, feeds: list[Any], flavour: Any) -> Any:
    return browser.evaluate(RUN, names, rounds, feeds, flavour)


@click.command()
@click.argument("graphs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--feeds", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--rounds", default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(graphs: tuple[Path, ...], feeds: Path, rounds: int, as_json: bool) -> None:
    """Measure GRAPHS side by side; ratios are to the first."""
    with np.load(feeds) as content:
        arrays = {name: content[name] for name in content.files}
    times, creates = measure(list(graphs), arrays, rounds)
    if as_json:
        click.echo(json.dumps({"times": times, "creates": creates}))
        return
    table = Table("graph", "MB", "create ms", "run ms (median)", "ratio", box=None)
    for graph, runs, create in zip(graphs, times, creates, strict=True):
        table.add_row(
            graph.name,
            f"{graph.stat().st_size / 1e6:.1f}",
            f"{create:.0f}",
            f"{min(runs):.1f} ({median(runs):.1f})",
            f"{min(runs) / min(times[0]):.2f} ({median(runs) / median(times[0]):.2f})",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
