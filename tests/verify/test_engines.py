"""Every engine starts, evaluates, and hands over values and errors the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builder.errors import UsageError
from builder.verify import Browser, engines, launch
from builder.verify.browser import PageError


@pytest.fixture(scope="module", params=["chromium", "firefox", "webkitgtk"])
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    with launch(request.param, webgpu=False) as started:
        yield started


def test_values_come_back(browser: Browser) -> None:
    value = {"a": [1, 2.5, None, True], "b": "ü"}
    assert browser.evaluate("return args[0]", value) == value
    assert browser.evaluate("await null; return args[0] + args[1]", 2, 3) == 5
    assert browser.evaluate("void 0") is None


def test_errors_come_back_with_name_and_message(browser: Browser) -> None:
    with pytest.raises(PageError, match="TypeError: no such thing"):
        browser.evaluate('throw new TypeError("no such thing")')
    with pytest.raises(PageError, match="late"):
        browser.evaluate('await Promise.reject(new Error("late"))')
    with pytest.raises(PageError, match="number: 1234"):
        browser.evaluate("throw 1234")


def test_webgpu_can_be_kept_from_pages(browser: Browser) -> None:
    assert browser.evaluate("return typeof navigator.gpu") == "undefined"


def test_a_browser_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    engines.find.cache_clear()
    with (
        pytest.raises(UsageError, match=r"Chromium.*isn't installed.*make browsers"),
        launch("chromium"),
    ):
        pass
    engines.find.cache_clear()
