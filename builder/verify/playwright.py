"""Chromium and Firefox, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import ConsoleMessage, Page, Playwright, Request, sync_playwright

from builder.verify.browser import TIMEOUT, unwrapped, wrapped

ACTION = 60
"""Seconds for an element to be there and to be clicked."""


class PlaywrightBrowser:
    """A page of Playwright as a `Browser`."""

    def __init__(self, page: Page) -> None:
        self.driver = page
        self.console: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(ACTION * 1000)
        page.set_default_navigation_timeout(TIMEOUT * 1000)
        page.on("console", self._heard)
        # Of the whole context, so that workers' requests count as well.
        page.context.on("request", self._asked)

    def goto(self, url: str) -> None:
        """Open an address and wait for its load event."""
        self.driver.goto(url)

    def evaluate(self, body: str, *args: Any) -> Any:
        """See `Browser.evaluate`."""
        return unwrapped(self.driver.evaluate(f"async (args) => {{ {wrapped(body)} }}", list(args)))

    def close(self) -> None:
        """End the browser."""
        browser = self.driver.context.browser
        if browser is not None:
            browser.close()

    def _heard(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)


@contextmanager
def opened(kind: Literal["chromium", "firefox"], **options: Any) -> Iterator[PlaywrightBrowser]:
    """Start a browser; `options` are those of Playwright's `launch`."""
    with _driver() as playwright:
        browser = getattr(playwright, kind).launch(**options)
        page = PlaywrightBrowser(browser.new_page())
        try:
            yield page
        finally:
            page.close()


_running: list[Playwright] = []


@contextmanager
def _driver() -> Iterator[Playwright]:
    """Playwright's driver: a thread can have only one, which browsers open at a time share."""
    if _running:
        yield _running[0]
        return
    with sync_playwright() as playwright:
        _running.append(playwright)
        try:
            yield playwright
        finally:
            _running.clear()
