"""Bytes on the wire and time to the first result: our pages beside others, cold and warm.

    .venv/bin/python -m bench.first_result [--rounds 3] [--model minilm]

The others are what tutorials give: onnxruntime-web's default entry with the fp32 model, on a host
that compresses nothing and on one that serves brotli; and transformers.js with the variant that it
takes on the CPU, which is our int8 under its name there. See `bench.rivals` for what each page
does. All run on WASM.

All go through one proxy on the loopback: as it is, and held back to 2.3 MB/s and 40 ms a request.
Rounds are interleaved; figures are the minima, with medians in parentheses. The last column is the
cold time as a multiple of what it can't be below: the transfer of its bytes, or the warm time,
whichever is longer. Ratios count, not seconds: they depend on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import BrowserType, Page, sync_playwright
from playwright.sync_api import TimeoutError as LateError

from bench import rivals
from bench.network import Network, Proxy, through
from builder.server import create_app, running
from builder.verify.engines import find

NETWORKS = {
    "2.3 MB/s, 40 ms": Network(2.3e6, 0.04),
    "not held back": Network(),
}

PATIENCE = 300_000
"""Milliseconds for a page."""


@dataclass(frozen=True)
class Visit:
    """Seconds to the first result, and bytes on the wire."""

    seconds: float
    sent: int


def visits(
    chromium: BrowserType, url: str, proxy: Proxy, model: rivals.Model
) -> tuple[Visit, Visit]:
    """A cold and a warm visit of one page, in a profile of its own.

    On the disk, as people have it: the cache of a private window is too small for large files.

    Raises:
        RuntimeError: It shows a wrong result.
    """
    made: list[Visit] = []
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as profile:
        context = chromium.launch_persistent_context(
            profile, executable_path=find("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context.set_default_timeout(PATIENCE)
        for _ in range(2):
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            before, started = proxy.bytes, time.perf_counter()
            page.goto(url)
            try:
                shown = _result(page)
            except LateError as error:
                raise RuntimeError(f"{url} shows nothing ({'; '.join(faults)})") from error
            made.append(Visit(time.perf_counter() - started, proxy.bytes - before))
            page.close()
            if not model.right(shown):
                raise RuntimeError(f"{url} shows {shown[:100]}")
        context.close()
    return made[0], made[1]


def _result(page: Page) -> str:
    """What it shows first; a model's own page is asked for its first sample."""
    if page.query_selector("[data-testid=status]"):
        page.wait_for_selector("[data-testid=status][data-state=ready]", state="attached")
        page.click("[data-testid=sample-0]")
        row = page.locator("[data-testid=label-row]").first
        row.wait_for()
        return row.inner_text()
    page.wait_for_function("document.getElementById('result').textContent !== ''")
    return page.inner_text("#result")


def row(name: str, made: list[tuple[Visit, Visit]], network: Network) -> str:
    """A row of the table from the visits of one page."""
    cells = []
    for index in (0, 1):
        seconds = [pair[index].seconds for pair in made]
        cells.append(f"{min(pair[index].sent for pair in made) / 1e6:.2f}")
        cells.append(f"{min(seconds):.1f} ({statistics.median(seconds):.1f})")
    cold, warm = (min(pair[i].seconds for pair in made) for i in (0, 1))
    floor = max(min(pair[0].sent for pair in made) / network.rate, warm)
    return f"| {name} | {' | '.join(cells)} | {cold / floor:.2f} |"


def main() -> None:
    """Build, measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", choices=list(rivals.MODELS), help="only this one")
    asked = parser.parse_args()
    ids = [asked.model] if asked.model else list(rivals.MODELS)
    models = {name: rivals.MODELS[name]() for name in ids}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "site"
        pages = rivals.write(folder, models)
        target = stack.enter_context(running(create_app(folder)))
        chromium = stack.enter_context(sync_playwright()).chromium
        made: dict[tuple[str, str, str], list[tuple[Visit, Visit]]] = {}
        for _ in range(asked.rounds):
            for title, network in NETWORKS.items():
                for (name, contestant), path in pages.items():
                    with through(target, network) as (url, proxy):
                        pair = visits(chromium, url + path, proxy, models[name])
                    made.setdefault((name, title, contestant), []).append(pair)
    for name, model in models.items():
        for title, network in NETWORKS.items():
            print(f"\n{model.name}, {title}\n")
            print("| page | cold, MB | cold, s | warm, MB | warm, s | cold / least possible |")
            print("|---|--:|--:|--:|--:|--:|")
            for contestant in dict.fromkeys(contestant for _, contestant in pages):
                print(row(contestant, made[name, title, contestant], network))


if __name__ == "__main__":
    main()
