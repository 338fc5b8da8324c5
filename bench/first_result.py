"""Bytes on the wire and time to the first result: our EfficientNet page beside a stock page.

    .venv/bin/python bench/first_result.py [--rounds 3]

The stock page is what a tutorial gives: onnxruntime-web's default entry and the fp32 model, on a
host that compresses nothing, and on one that serves brotli. Both pages show a sample picture and
its best label. All go through one proxy on the loopback that lets 2.3 MB/s
pass in all and holds each request back for 40 ms (a browser's own throttle doesn't reach workers).
Rounds are interleaved; figures are the minima, with medians in parentheses. Ratios count, not
seconds: the machine has two cores and no GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

from builder import build, plan
from builder.bundle.compress import compress_tree
from builder.server import create_app, running
from builder.verify.engines import find

RATE = 2.3e6
"""Bytes a second."""

LATENCY = 0.04
"""Seconds before a request is passed on."""

CHUNK = 16 * 1024
MODEL = "efficientnet-lite0"
ROOT = Path(__file__).resolve().parent.parent

STOCK = """<!doctype html><meta charset="utf-8"><title>stock</title>
<img id="picture" src="chelsea.png"><p id="result"></p>
<script type="module">
import * as ort from "./ort/ort.bundle.min.mjs";
const session = await ort.InferenceSession.create("model.onnx");
const picture = document.getElementById("picture");
await picture.decode();
const context = new OffscreenCanvas(224, 224).getContext("2d");
const side = Math.min(picture.naturalWidth, picture.naturalHeight);
const left = (picture.naturalWidth - side) / 2, top = (picture.naturalHeight - side) / 2;
context.drawImage(picture, left, top, side, side, 0, 0, 224, 224);
const { data } = context.getImageData(0, 0, 224, 224);
const input = new Float32Array(3 * 224 * 224);
for (let i = 0; i < 224 * 224; i++)
  for (let c = 0; c < 3; c++) input[c * 224 * 224 + i] = (data[4 * i + c] - 127) / 128;
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", input, [1, 3, 224, 224]) };
const output = (await session.run(feeds))[session.outputNames[0]].data;
document.getElementById("result").textContent = output.indexOf(Math.max(...output));
</script>
"""


class Shaper:
    """A proxy that gives all connections together `RATE` bytes a second, and counts them."""

    def __init__(self, target: str) -> None:
        self.host, self.port = urlsplit(target).hostname, urlsplit(target).port
        self.bytes = 0
        self._free_at = 0.0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""
        upstream, to_upstream = await asyncio.open_connection(self.host, self.port)
        await asyncio.gather(
            self._up(reader, to_upstream), self._down(upstream, writer), return_exceptions=True
        )

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await asyncio.sleep(LATENCY)
            writer.write(chunk)
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            self.bytes += len(chunk)
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + len(chunk) / RATE
            await asyncio.sleep(self._free_at - now)
            writer.write(chunk)
            await writer.drain()
        writer.close()


@contextmanager
def shaped(target: str) -> Iterator[tuple[str, Shaper]]:
    """The proxy's address, and the proxy, for as long as the block lasts."""
    loop = asyncio.new_event_loop()
    shaper = Shaper(target)
    server = loop.run_until_complete(asyncio.start_server(shaper.handle, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", shaper
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def stock_page(folder: Path, site: Path, *, compressed: bool) -> None:
    """Write the stock page: default entry of onnxruntime-web, the fp32 model in one file."""
    import onnx

    manifest = json.loads((site / "models" / MODEL / "manifest.json").read_text())
    (stage,) = [stage for stage in manifest["stages"] if stage["kind"] == "model"]
    (variant,) = [variant for variant in stage["variants"] if variant["dtype"] == "fp32"]
    with tempfile.TemporaryDirectory() as scratch:
        for blob in variant["weights"]:
            content = b"".join((site / shard["path"]).read_bytes() for shard in blob["shards"])
            (Path(scratch) / blob["name"]).write_bytes(content)
        shutil.copy(site / variant["graph"]["path"], Path(scratch) / "graph.onnx")
        onnx.save(onnx.load(Path(scratch) / "graph.onnx"), folder / "model.onnx")
    (folder / "index.html").write_text(STOCK)
    picture = next(s for s in manifest["samples"] if s["title"] == "Cat")
    shutil.copy(site / picture["file"]["path"], folder / "chelsea.png")
    dist = ROOT / "web" / "node_modules" / "onnxruntime-web" / "dist"
    (folder / "ort").mkdir()
    for name in ("ort.bundle.min.mjs", "ort-wasm-simd-threaded.jsep.mjs"):
        shutil.copy(dist / name, folder / "ort" / name)
    shutil.copy(dist / "ort-wasm-simd-threaded.jsep.wasm", folder / "ort")
    if compressed:
        compress_tree(folder)


def visit(browser: Browser, url: str, shaper: Shaper) -> list[tuple[float, int]]:
    """A cold and a warm visit: seconds to the first result, and bytes on the wire, of each."""
    context = browser.new_context()
    figures = []
    for _ in range(2):
        page = context.new_page()
        before, started = shaper.bytes, time.perf_counter()
        page.goto(url)
        if MODEL in url:
            page.wait_for_selector("[data-testid=status][data-state=ready]", state="attached")
            page.click("[data-testid=sample-0]")
            page.wait_for_selector("[data-testid=label-row]")
        else:
            page.wait_for_function("document.getElementById('result').textContent !== ''")
        seconds = time.perf_counter() - started
        page.close()
        figures.append((seconds, shaper.bytes - before))
    context.close()
    return figures


def main() -> None:
    """Build, measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = folder / "ours"
        build([f"zoo:{MODEL}"], ours, flags=plan.Flags(dtypes=["fp32", "int8"]))
        pages = {"onnxsite, int8, brotli": f"models/{MODEL}/?device=wasm"}
        for name, compressed in (("stock, plain host", False), ("stock, brotli", True)):
            stock = ours / name.replace(", ", "-").replace(" ", "-")
            stock.mkdir()
            stock_page(stock, ours, compressed=compressed)
            pages[name] = f"{stock.name}/"
        url, shaper = stack.enter_context(shaped(stack.enter_context(running(create_app(ours)))))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=find("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        visits: dict[str, list[list[tuple[float, int]]]] = {name: [] for name in pages}
        for _ in range(rounds):
            for name, path in pages.items():
                visits[name].append(visit(browser, url + path, shaper))
        browser.close()
    print("| page | cold, MB | cold, s | warm, MB | warm, s |\n|---|--:|--:|--:|--:|")
    for name, runs in visits.items():
        cells = []
        for index in (0, 1):
            seconds = [run[index][0] for run in runs]
            sent = [run[index][1] for run in runs]
            cells.append(f"{min(sent) / 1e6:.1f}")
            cells.append(f"{min(seconds):.1f} ({statistics.median(seconds):.1f})")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
