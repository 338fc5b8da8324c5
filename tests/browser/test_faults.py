"""Whatever a network does: right outputs in the end or an error that names it, and no harm left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from builder.verify import Browser, PageError
from tests.browser.fault_server import Fault, FaultServer, serving
from tests.browser.faults import FAULTS, table
from tests.browser.site import ROOT, Arrays, Site

MODEL = "encoder"

PATIENCE = {"retries": 3, "pause": 20, "stall": 800}
"""Milliseconds: the ladder is the visitors' own, its steps are shorter."""

ENGINES = ("chromium", "firefox", "webkitgtk")

SOME = 9
"""WebKitGTK, where every load takes seconds, meets every ninth fault."""

CASES = [
    pytest.param(engine, fault, id=f"{engine}-{fault.name}")
    for engine in ENGINES
    for fault in FAULTS[:: SOME if engine == "webkitgtk" else 1]
]

LOAD = """
const [root, id, network, inputs] = args;
const { load } = await import(`${root}onnxsite.js`);
const options = { device: "wasm", dtype: "fp32", threads: 1, network };
const model = await load(`${root}models/${id}/`, options);
try {
  const { outputs, info } = await model.run(inputs);
  return { y: Array.from(outputs.y.data), info };
} finally {
  await model.dispose();
}
"""

# Only what is to fail is forgotten: the runtime's 14 MB needn't come anew each time.
FORGET = """
const [keys] = args;
const root = await navigator.storage?.getDirectory?.();
const folder = await root?.getDirectoryHandle("onnxsite");
const cache = await caches.open("onnxsite");
for (const key of keys.filter((key) => key !== "")) {
  if (folder) await folder.removeEntry(key);
  else if (!(await cache.delete(`https://onnxsite.invalid/${key}`))) throw new Error(key);
}
"""

# WebKitGTK's private session drops a cache that nobody holds.
HOLD = "globalThis.held = await caches.open('onnxsite');"


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[FaultServer]:
    """The site on a host that goes wrong when it is told to."""
    with serving(site.folder) as found:
        yield found


@pytest.fixture(scope="module")
def inputs(site: Site) -> Arrays:
    """The stored inputs of the model."""
    stored = site.stored(site.manifest(MODEL)["references"][0])
    return {name: stored[name] for name in ("x", "ids")}


@pytest.fixture(scope="module")
def expected(site: Site, inputs: Arrays) -> Any:
    """What onnxruntime on the CPU makes of them."""
    return site.on_the_cpu(MODEL, "model", "fp32", inputs)["y"].ravel()


def targets(site: Site) -> dict[str, list[dict[str, Any]]]:
    """The files that faults are about, by the names that the table gives them."""
    manifest = site.manifest(MODEL)
    files = site.variants(MODEL)["fp32"]["optimised"]  # what WASM reads
    runtime = next(f for f in manifest["runtime"]["flavours"] if f["name"] == "wasm")
    return {
        "shard": files["weights"][0]["shards"],
        "graph": [files["graph"]],
        "wasm": runtime["wasm"]["shards"][:1],
        "api": [runtime["api"]],
        "glue": [runtime["glue"]],
        "reference": [manifest["references"][0]["file"]],
        "manifest": [{"path": f"models/{MODEL}/manifest.json", "sha256": "", "size": 0}],
    }


def load(browser: Browser, server: FaultServer, inputs: Arrays) -> Any:
    """Load the model and run it."""
    feeds = {k: {"data": v.ravel().tolist(), "dims": v.shape} for k, v in inputs.items()}
    return browser.evaluate(LOAD, server.url, MODEL, PATIENCE, feeds)


@pytest.mark.parametrize(("engine", "fault"), CASES)
def test_a_fault_is_survived(
    site: Site,
    request: pytest.FixtureRequest,
    server: FaultServer,
    inputs: Arrays,
    expected: Any,
    engine: str,
    fault: Fault,
) -> None:
    browser: Browser = request.getfixturevalue(engine)
    server.disarm()
    if not browser.evaluate("return location.href").startswith(server.url):
        browser.goto(f"{server.url}404.html")
        browser.evaluate(HOLD)
        load(browser, server, inputs)
    files = targets(site)[fault.target]
    browser.evaluate(FORGET, [file["sha256"] for file in files])
    paths = [file["path"] for file in files]
    server.arm(fault, frozenset([*paths, *(f"{path}.gz" for path in paths)]))
    if fault.code:
        with pytest.raises(PageError) as caught:
            load(browser, server, inputs)
        assert caught.value.name == fault.code
        assert any(server.url + path in caught.value.message for path in paths)
    else:
        np.testing.assert_allclose(load(browser, server, inputs)["y"], expected, atol=1e-4)
    assert server.hits >= (fault.times or 1)

    server.disarm()
    np.testing.assert_allclose(load(browser, server, inputs)["y"], expected, atol=1e-4)


def test_the_table_of_faults_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    assert len(FAULTS) >= 60
    assert table() in text, "run `python -m tests.browser.faults` and put its table there"
