"""What a started browser can be asked, and the wrapping that makes it the same for each engine."""

from __future__ import annotations

from typing import Any, Protocol

TIMEOUT = 300
"""Seconds for a page or a script: the first WebGPU run on a software adapter takes half a minute,
and more on a machine that does other things as well."""

# Errors come back as values: each driver has its own way of losing a thrown error's fields.
_SCRIPT = """
try {{
  const late = new Promise((_, reject) => setTimeout(
    () => reject(new DOMException("it took longer than {timeout} s", "TimeoutError")),
    1000 * {timeout}));
  const value = await Promise.race([(async () => {{ {body} }})(), late]);
  return {{ value: value === undefined ? null : value }};
}} catch (error) {{
  return {{ error: {{
    name: String(error?.name ?? typeof error), message: String(error?.message ?? error),
  }} }};
}}
"""


class PageError(Exception):
    """A script in the page threw.

    Attributes:
        name: The error's name in JavaScript.
        message: What it says.
    """

    def __init__(self, name: str, message: str) -> None:
        self.name, self.message = name, message
        super().__init__(f"{name}: {message}")


class Browser(Protocol):
    """One window of a browser with a fresh profile.

    Attributes:
        console: What the page, not its workers, has logged so far; empty on WebKitGTK.
        requests: Addresses that were asked for so far, workers' included; empty on WebKitGTK.
        driver: The engine's own handle: Playwright's `Page` or Selenium's `WebDriver`.
    """

    console: list[str]
    requests: list[str]
    driver: Any

    def goto(self, url: str) -> None:
        """Open an address and wait for its load event."""

    def evaluate(self, body: str, *args: Any) -> Any:
        """Run the body of an async function, which sees `args`, and give what it returns.

        Arguments and results are what JSON can hold.

        Raises:
            PageError: It threw.
        """

    def close(self) -> None:
        """End the browser."""


def wrapped(body: str) -> str:
    """`body` as the body of an async function of `args` that never throws."""
    return _SCRIPT.format(body=body, timeout=TIMEOUT)


def unwrapped(result: Any) -> Any:
    """The value of a wrapped script.

    Raises:
        PageError: It threw.
    """
    if "error" in result:
        raise PageError(result["error"]["name"], result["error"]["message"])
    return result["value"]
