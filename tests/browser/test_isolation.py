"""Threads on a host that sends no headers: the service worker isolates the page, if asked to."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Frame

from builder.verify import Browser, launch
from builder.verify.browser import TIMEOUT
from tests.browser import drive, plain
from tests.browser.site import Site


@pytest.fixture(scope="module")
def sites(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By what the builder was told. The session's site is built before, with the same bundles."""
    del site
    folder = tmp_path_factory.mktemp("isolation")
    modes = ("ask", "auto", "never")
    return {mode: plain.build(folder / mode, isolate=mode) for mode in modes}


@pytest.fixture
def host(
    request: pytest.FixtureRequest, sites: dict[str, Path], tmp_path: Path
) -> Iterator[plain.Host]:
    with plain.hosted(tmp_path, sites[request.param]) as running:
        yield running


def threads(browser: Browser) -> tuple[bool, int]:
    """Whether the loaded page is isolated, and the threads that its model has."""
    now: Any = drive.ready(browser)
    return browser.evaluate("return crossOriginIsolated"), int(now["badge"]["threads"])


def isolated(browser: Browser, wanted: bool) -> None:
    """Wait until the page, which loads itself anew meanwhile, is isolated or no more."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        # A script that the page leaves behind ends without an answer.
        with contextlib.suppress(Error):
            if browser.evaluate("return crossOriginIsolated") == wanted:
                return
        time.sleep(0.1)
    pytest.fail(f"crossOriginIsolated never became {wanted}")


def most(browser: Browser) -> int:
    """The threads of an isolated page: the cores, at most 4."""
    return min(4, int(browser.evaluate("return navigator.hardwareConcurrency")))


def loads(browser: Browser, action: Callable[[], None]) -> int:
    """How often a page is opened by what `action` does."""
    opened: list[str] = []

    def note(frame: Frame) -> None:
        opened.append(frame.url)

    browser.driver.on("framenavigated", note)
    action()
    drive.ready(browser)
    browser.driver.remove_listener("framenavigated", note)
    return len(opened)


@pytest.mark.parametrize("host", ["ask"], indirect=True)
@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_the_visitor_is_asked(browser: Browser, host: plain.Host) -> None:
    browser.goto(host.page)
    assert threads(browser) == (False, 1)
    (said,) = drive.texts(browser, "cores")
    assert "one" in said
    with browser.driver.expect_navigation():
        drive.click(browser, "use-cores")
    assert threads(browser) == (True, most(browser))
    drive.drop(browser, [("given", "", Path(__file__).read_bytes())])
    assert "python" in drive.result(browser, "file-row")[0].split()
    assert drive.texts(browser, "cores") == [""]
    # It stays, and it can be taken back in the address.
    browser.goto(host.page)
    assert threads(browser) == (True, most(browser))
    browser.goto(f"{host.page}&isolate=0")
    isolated(browser, False)
    assert threads(browser) == (False, 1)
    browser.goto(f"{host.page}&isolate=1")
    isolated(browser, True)
    assert threads(browser) == (True, most(browser))


@pytest.mark.parametrize("host", ["auto"], indirect=True)
@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_by_itself_the_page_is_loaded_once_more_and_never_again(
    browser: Browser, host: plain.Host
) -> None:
    def first() -> None:
        browser.goto(host.page)
        isolated(browser, True)

    assert loads(browser, first) == 2
    assert threads(browser) == (True, most(browser))
    assert loads(browser, lambda: browser.goto(host.page)) == 1


@pytest.mark.parametrize("host", ["never"], indirect=True)
def test_never_means_never(chromium: Browser, host: plain.Host) -> None:
    chromium.goto(f"{host.page}&isolate=1")
    assert threads(chromium) == (False, 1)
    assert drive.texts(chromium, "cores") == [""]


@pytest.mark.parametrize("host", ["auto"], indirect=True)
def test_where_there_is_no_service_worker_the_page_says_so(host: plain.Host) -> None:
    # As on an insecure origin, or in a private window of Firefox.
    with launch("chromium") as browser:
        browser.driver.add_init_script("delete Navigator.prototype.serviceWorker")
        browser.goto(host.page)
        assert threads(browser) == (False, 1)
        (said,) = drive.texts(browser, "cores")
        assert "https" in said
        assert drive.texts(browser, "use-cores") == []
