"""Drive a model page the way a user does, in whichever engine: by scripts in the page alone."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

from builder.verify import Browser
from builder.verify.browser import TIMEOUT

_STATE = """
const find = (id) => document.querySelector(`[data-testid="${id}"]`);
const text = (id) => { const e = find(id); return e && !e.hidden ? e.textContent.trim() : ""; };
const badge = find("badge");
return {
  state: find("status")?.dataset.state, status: text("status"), error: text("error"),
  fallback: text("fallback"), badge: badge.hidden ? null : { ...badge.dataset },
};
"""

_CLICK = """
const found = document.querySelector(`[data-testid="${args[0]}"]`);
found?.click();
return found !== null;
"""

# A real DataTransfer with real files, as the browser makes it from a drag.
_DROP = """
const [target, files] = args;
const transfer = new DataTransfer();
for (const [name, type, base64] of files) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  transfer.items.add(new File([bytes], name, { type }));
}
const element = document.querySelector(`[data-testid="${target}"]`);
for (const kind of ["dragenter", "dragover", "drop"]) {
  element.dispatchEvent(
    new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}
"""


class FailedError(AssertionError):
    """The page shows an error where none was expected."""


def state(browser: Browser) -> Any:
    """What the page says: `state`, `status`, `error`, `fallback` and the badge's data."""
    return browser.evaluate(_STATE)


def until(browser: Browser, body: str, *args: object) -> Any:
    """Wait until a script gives something that isn't false, and give that.

    Raises:
        FailedError: The page shows an error meanwhile.
        TimeoutError: It never did.
    """
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found := browser.evaluate(body, *args):
            return found
        now = state(browser)
        if now["state"] == "error":
            raise FailedError(now["error"])
        time.sleep(0.1)
    raise TimeoutError(f"the page never got there: {state(browser)}")


def ready(browser: Browser) -> Any:
    """Wait until the model is loaded and nothing runs; gives the page's state."""
    until(
        browser,
        """return document.querySelector('[data-testid="status"]').dataset.state
        === "ready";""",
    )
    return state(browser)


def click(browser: Browser, testid: str) -> None:
    """Click an element as soon as it is there: pages build their controls by script."""
    until(browser, _CLICK, testid)


def drop(browser: Browser, files: Sequence[tuple[str, str, bytes]]) -> None:
    """Drop files (name, type, content) on the page's drop area."""
    coded = [(name, kind, base64.b64encode(content).decode()) for name, kind, content in files]
    browser.evaluate(_DROP, "drop", coded)


def texts(browser: Browser, testid: str) -> list[str]:
    """The texts of every element of that name."""
    found = browser.evaluate(
        "return [...document.querySelectorAll(`[data-testid='${args[0]}']`)]"
        ".map((e) => e.innerText.trim())",
        testid,
    )
    return list(found)


def result(browser: Browser, testid: str, count: int = 1) -> list[str]:
    """Wait until `count` elements of a result are there and the run is over; gives their texts."""
    until(
        browser,
        "const [id, count] = args; return document.querySelectorAll(`[data-testid='${id}']`)"
        ".length >= count && document.querySelector('[data-testid=\"status\"]').dataset.state"
        ' === "ready";',
        testid,
        count,
    )
    return texts(browser, testid)


def fails(browser: Browser) -> str:
    """Wait until the page shows an error; gives its words."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        now = state(browser)
        if now["state"] == "error":
            return str(now["error"])
        time.sleep(0.1)
    raise TimeoutError("the page shows no error")
