"""Without a connection, and from one version to the next: a page is always of one version."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.verify import Browser
from builder.verify.browser import TIMEOUT
from tests.browser import drive, plain
from tests.browser.fault_server import Fault, Handler, serving
from tests.browser.site import Site

TITLES = ("First", "Second")

ACTIVE = "return (await navigator.serviceWorker.ready).active.state;"

SHELLS = "return (await caches.keys()).filter((name) => name.includes(' shell '));"

# The end of an installation that an update has begun.
UPDATE = """
const registration = await navigator.serviceWorker.getRegistration();
await registration.update();
const worker = registration.installing ?? registration.waiting;
if (!worker) return "none";
while (worker.state === "installing") await new Promise((go) => setTimeout(go, 50));
return worker.state;
"""


@pytest.fixture(scope="module")
def versions(site: Site, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One site under two titles. The session's site is built before, with the same bundles."""
    del site
    folder = tmp_path_factory.mktemp("versions")
    return [plain.build(folder / title, title=title) for title in TITLES]


@pytest.fixture
def host(versions: list[Path], tmp_path: Path) -> Iterator[plain.Host]:
    with plain.hosted(tmp_path, versions[0]) as running:
        yield running


def visit(browser: Browser, host: plain.Host) -> None:
    """A first visit, until everything that it keeps is kept."""
    browser.goto(host.page)
    drive.ready(browser)
    assert browser.evaluate(ACTIVE) in ("activating", "activated")
    drive.until(browser, "return !document.getElementById('offline').hidden")


def title(browser: Browser) -> str:
    return str(browser.driver.title())


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_after_one_visit_the_host_may_go(site: Site, browser: Browser, host: plain.Host) -> None:
    visit(browser, host)
    drive.click(browser, "make-offline")
    assert drive.result(browser, "offline") == ["Available offline"]
    host.stop()
    browser.goto(host.page)
    drive.ready(browser)
    drive.drop(browser, [("given", "", Path(__file__).read_bytes())])
    (row,) = drive.result(browser, "file-row")
    assert "python" in row.split()
    # Samples were kept with the model: this one is a picture, as its title says.
    samples = [sample["title"] for sample in site.manifest("magika")["samples"]]
    drive.click(browser, f"sample-{samples.index('PNG picture')}")
    assert "png" in drive.result(browser, "file-row", 2)[0].split()
    assert drive.texts(browser, "offline") == ["Available offline"]
    for path, expected in {
        "": "First",
        "index.html": "First",
        "models/magika": "Magika - First",
        "models/none/": "Page not found - First",
    }.items():
        browser.goto(host.url + path)
        assert title(browser) == expected


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_a_new_version_waits_for_the_visitors_word(
    browser: Browser, host: plain.Host, versions: list[Path]
) -> None:
    visit(browser, host)
    (first,) = browser.evaluate(SHELLS)
    host.put(versions[1])
    browser.goto(host.page)
    assert title(browser) == "Magika - First"
    assert browser.evaluate(UPDATE) in ("installed", "none")
    drive.until(browser, "return document.querySelector('[data-testid=\"update\"]') !== null")
    # Installed, but no page is of it: neither this one nor another.
    assert len(browser.evaluate(SHELLS)) == 2
    browser.goto(host.url)
    assert title(browser) == "First"
    browser.goto(host.page)
    assert title(browser) == "Magika - First"
    with browser.driver.expect_navigation():
        drive.click(browser, "update")
    drive.ready(browser)
    assert title(browser) == "Magika - Second"
    (second,) = browser.evaluate(SHELLS)
    assert second != first
    host.stop()
    browser.goto(host.url)
    assert title(browser) == "Second"


def test_a_new_version_in_the_middle_of_a_download(chromium: Browser, versions: list[Path]) -> None:
    """The model of the page's own version arrives and works; the new one waits to be asked for."""
    manifest = json.loads((versions[0] / "models/magika/manifest.json").read_bytes())
    (stage,) = [entry for entry in manifest["stages"] if entry["kind"] == "model"]
    shards = {s["path"] for v in stage["variants"] for b in v["weights"] for s in b["shards"]}
    goes_on = threading.Event()

    def wait(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
        goes_on.wait()
        handler.send(200, content, headers)

    with serving(versions[0]) as host:
        host.arm(Fault("waits", "weights", wait, times=None), frozenset(shards))
        chromium.goto(host.url)
        while chromium.evaluate(ACTIVE) != "activated":
            time.sleep(0.1)
        chromium.goto(f"{host.url}models/magika/?device=wasm")
        end = time.monotonic() + TIMEOUT
        while not host.hits and time.monotonic() < end:
            time.sleep(0.1)
        assert host.hits
        host.root = versions[1]
        assert chromium.evaluate(UPDATE) == "installed"
        goes_on.set()
        drive.ready(chromium)
        assert title(chromium) == "Magika - First"
        drive.drop(chromium, [("given", "", Path(__file__).read_bytes())])
        assert "python" in drive.result(chromium, "file-row")[0].split()
        with chromium.driver.expect_navigation():
            drive.click(chromium, "update")
        drive.ready(chromium)
        assert title(chromium) == "Magika - Second"


def test_an_upload_that_is_half_done_changes_nothing(
    chromium: Browser, host: plain.Host, versions: list[Path], tmp_path: Path
) -> None:
    visit(chromium, host)
    shells = chromium.evaluate(SHELLS)
    half = tmp_path / "half"
    shutil.copytree(versions[1], half)
    # The new service worker and page, but still the old page of the model.
    shutil.copy(versions[0] / "models/magika/index.html", half / "models/magika/index.html")
    host.put(half)
    chromium.goto(host.page)
    assert chromium.evaluate(UPDATE) == "redundant"
    assert chromium.evaluate(SHELLS) == shells
    host.stop()
    chromium.goto(host.url)
    assert title(chromium) == "First"
    chromium.goto(host.page)
    drive.ready(chromium)


def test_a_site_without_a_service_worker_removes_the_earlier_one(
    chromium: Browser, host: plain.Host, tmp_path: Path
) -> None:
    visit(chromium, host)
    host.put(plain.build(tmp_path / "without", title="Without", offline=False))
    chromium.evaluate(UPDATE)
    drive.until(chromium, "return (await navigator.serviceWorker.getRegistrations()).length === 0;")
    assert [n for n in chromium.evaluate("return caches.keys()") if host.url in n] == []
    chromium.goto(host.page)
    assert title(chromium) == "Magika - Without"
    drive.ready(chromium)
    assert chromium.evaluate("return navigator.serviceWorker.controller") is None
