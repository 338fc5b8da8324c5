"""What is kept in the browser: gone on with, shared by tabs, never trusted, and never a must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from builder.verify import Browser, PageError
from builder.verify.browser import TIMEOUT
from tests.browser import drive
from tests.browser.fault_server import Fault, FaultServer, serving
from tests.browser.faults import stall, trickle
from tests.browser.site import Arrays, Site
from tests.browser.test_faults import FORGET, HOLD, LOAD, MODEL, targets

PATIENCE = {"retries": 3, "pause": 20, "stall": 20_000}

START = f"globalThis.loading = (async (args) => {{ {LOAD} }})(args);"

WAIT = "return await globalThis.loading;"

# Before the model's worker starts, a module of the test's own runs in it.
WITHIN = """
const [text] = args;
const { Worker: Real } = globalThis;
const module = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
globalThis.Worker = class extends Real {
  constructor(url, options) {
    super(module(`import "${module(text)}"; import "${url}";`), options);
  }
};
"""

DENIED = """
const refuse = () => Promise.reject(new DOMException("Not in this window.", "SecurityError"));
StorageManager.prototype.getDirectory = refuse;
CacheStorage.prototype.open = refuse;
"""

CACHE_ONLY = "StorageManager.prototype.getDirectory = undefined;"

# One file is never opened, as Chromium does where its handle is collected meanwhile.
FORGETFUL = """
const { prototype } = FileSystemFileHandle;
const open = prototype.createSyncAccessHandle;
let asked = 0;
prototype.createSyncAccessHandle = function (...args) {
  return asked++ === 2 ? new Promise(() => {}) : open.apply(this, args);
};
"""

# What `write` may take is used up, however much there is really.
FULL = """
FileSystemSyncAccessHandle.prototype.write = () => {
  throw new DOMException("No space is left.", "QuotaExceededError");
};
"""

DAMAGE = """
const [key] = args;
const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("onnxsite");
const file = await folder.getFileHandle(key);
const writable = await file.createWritable({ keepExistingData: true });
await writable.write({ type: "write", position: 1000, data: new Uint8Array([1, 2, 3, 4, 5]) });
await writable.close();
"""

KEPT = """
const { storage } = await import(`${args[0]}onnxsite.js`);
return args[1] ? await storage.forget(args[1]) : await storage.kept();
"""

EMPTY = """
const found = (id) => document.querySelector(`[data-testid="${id}"]`);
return !found("storage-model") && found("storage-summary").textContent.startsWith("Nothing");
"""


@pytest.fixture
def server(site: Site) -> Iterator[FaultServer]:
    """The site at an origin of its own, where nothing is kept yet."""
    with serving(site.folder) as found:
        yield found


@pytest.fixture
def right(site: Site) -> Callable[[Any], None]:
    """Holds a result against onnxruntime on the CPU."""
    expected = site.on_the_cpu(MODEL, "model", "fp32", inputs(site))["y"].ravel()

    def check(result: Any) -> None:
        np.testing.assert_allclose(result["y"], expected, atol=1e-4)

    return check


def inputs(site: Site) -> Arrays:
    """The stored inputs of the model."""
    return site.stored(site.manifest(MODEL)["references"][0])


def arguments(site: Site, server: FaultServer) -> list[Any]:
    """Of `LOAD`."""
    stored = inputs(site)
    feeds = {k: {"data": stored[k].ravel().tolist(), "dims": stored[k].shape} for k in ("x", "ids")}
    return [server.url, MODEL, PATIENCE, feeds]


def shard_of(site: Site) -> Any:
    """The one file of weights."""
    (shard,) = targets(site)["shard"]
    return shard


def said(result: Any, step: str) -> str:
    """The runtime's words about a step."""
    return " ".join(e["message"] for e in result["info"]["events"] if e["step"] == step)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something outside the browser."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_the_next_visit_goes_on_where_a_closed_one_ended(
    site: Site, server: FaultServer, browser: Browser, right: Callable[[Any], None]
) -> None:
    shard = shard_of(site)
    server.arm(Fault("", "", stall), frozenset([shard["path"]]))
    browser.goto(f"{server.url}404.html")
    browser.evaluate(START, *arguments(site, server))
    until(lambda: server.hits == 1)
    time.sleep(0.5)  # for what was sent to arrive
    browser.goto("about:blank")
    browser.goto(f"{server.url}404.html")
    right(browser.evaluate(LOAD, *arguments(site, server)))
    assert [path for path, start in server.resumed if start == shard["size"] // 2] == [
        shard["path"]
    ]


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_two_tabs_share_one_download(
    site: Site, server: FaultServer, browser: Browser, right: Callable[[Any], None]
) -> None:
    shard = shard_of(site)
    server.arm(Fault("", "", trickle, None), frozenset([shard["path"]]))
    browser.goto(f"{server.url}404.html")
    with browser.driver.expect_popup() as waiting:
        browser.driver.evaluate("(url) => void open(url)", f"{server.url}404.html")
    other = waiting.value
    try:
        other.wait_for_load_state()
        start = f"async (args) => {{ {START} }}"
        browser.driver.evaluate(start, arguments(site, server))
        other.evaluate(start, arguments(site, server))
        right(browser.evaluate(WAIT))
        right(other.evaluate(f"async () => {{ {WAIT} }}"))
    finally:
        other.close()
    assert server.hits == 1


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_a_file_that_is_damaged_on_the_disk_comes_anew(
    site: Site, server: FaultServer, browser: Browser, right: Callable[[Any], None]
) -> None:
    shard = shard_of(site)
    browser.goto(f"{server.url}404.html")
    right(browser.evaluate(LOAD, *arguments(site, server)))
    server.arm(Fault("", "", trickle, None), frozenset([shard["path"]]))
    right(browser.evaluate(LOAD, *arguments(site, server)))
    assert server.hits == 0
    browser.evaluate(DAMAGE, shard["sha256"])
    right(browser.evaluate(LOAD, *arguments(site, server)))
    right(browser.evaluate(LOAD, *arguments(site, server)))
    assert server.hits == 1


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
@pytest.mark.parametrize(
    ("within", "words"),
    [(DENIED, "Nothing is kept for the next visit"), (FULL, "stores no more"), (CACHE_ONLY, "")],
    ids=["denied", "full", "without files"],
)
def test_without_room_the_model_runs_from_memory(
    site: Site,
    server: FaultServer,
    browser: Browser,
    right: Callable[[Any], None],
    within: str,
    words: str,
) -> None:
    browser.goto(f"{server.url}404.html")
    browser.evaluate(WITHIN, within)
    result = browser.evaluate(LOAD, *arguments(site, server))
    right(result)
    assert words in said(result, "storage")
    assert bool(words) == bool(said(result, "storage"))
    # The next visit is none the worse for it; only without files does it find what was kept.
    again = browser.evaluate(LOAD, *arguments(site, server))
    right(again)
    assert (again["info"]["bytes"]["downloaded"] == 0) == (not words)
    browser.goto(f"{server.url}404.html")
    right(browser.evaluate(LOAD, *arguments(site, server)))


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_a_file_that_the_browser_never_opens(
    site: Site, server: FaultServer, browser: Browser, right: Callable[[Any], None]
) -> None:
    browser.goto(f"{server.url}404.html")
    browser.evaluate(WITHIN, FORGETFUL)
    result = browser.evaluate(LOAD, *arguments(site, server))
    right(result)
    assert "doesn't answer" in said(result, "storage")
    browser.goto(f"{server.url}404.html")
    right(browser.evaluate(LOAD, *arguments(site, server)))


def test_a_real_quota(
    site: Site, server: FaultServer, chromium: Browser, right: Callable[[Any], None]
) -> None:
    chromium.goto(f"{server.url}404.html")
    devtools = chromium.driver.context.new_cdp_session(chromium.driver)
    origin = server.url.rstrip("/")
    devtools.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 4_000_000})
    result = chromium.evaluate(LOAD, *arguments(site, server))
    right(result)
    assert "stores no more" in said(result, "storage")
    devtools.send("Storage.overrideQuotaForOrigin", {"origin": origin})
    right(chromium.evaluate(LOAD, *arguments(site, server)))
    again = chromium.evaluate(LOAD, *arguments(site, server))
    right(again)
    assert again["info"]["bytes"]["downloaded"] == 0


@pytest.mark.parametrize("browser", ["chromium", "firefox", "webkitgtk"], indirect=True)
def test_what_is_kept_is_listed_and_forgotten(
    site: Site, server: FaultServer, browser: Browser, right: Callable[[Any], None]
) -> None:
    browser.goto(f"{server.url}404.html")
    browser.evaluate(HOLD)
    right(browser.evaluate(LOAD, *arguments(site, server)))
    kept = browser.evaluate(KEPT, server.url, None)
    (model,) = kept["models"]
    assert model["url"] == f"{server.url}models/{MODEL}/manifest.json"
    assert shard_of(site)["sha256"] in model["files"]
    assert kept["bytes"] >= sum(model["files"].values())
    after = browser.evaluate(KEPT, server.url, model["url"])
    assert (after["models"], after["bytes"]) == ([], 0)


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_visitors_see_and_delete_what_is_stored(
    site: Site, server: FaultServer, browser: Browser
) -> None:
    browser.goto(f"{server.url}models/{MODEL}/?device=wasm")
    drive.ready(browser)
    drive.until(browser, "return !document.getElementById('offline').hidden")
    drive.click(browser, "storage-open")
    (row,) = drive.result(browser, "storage-model")
    assert row.startswith(site.manifest(MODEL)["title"])
    assert browser.evaluate(KEPT, server.url, None)["bytes"] > shard_of(site)["size"]
    drive.click(browser, "storage-delete-all")
    drive.until(browser, EMPTY)
    assert browser.evaluate(KEPT, server.url, None)["bytes"] == 0
    assert drive.texts(browser, "offline") == ["No longer stored on this device."]


def test_forgetting_what_is_not_there_fails(
    site: Site, server: FaultServer, chromium: Browser
) -> None:
    """So that a test can't believe that it has cleared what it hasn't."""
    chromium.goto(f"{server.url}404.html")
    chromium.evaluate(LOAD, *arguments(site, server))
    with pytest.raises(PageError, match="NotFoundError"):
        chromium.evaluate(FORGET, ["0" * 64])
