"""WebKitGTK's MiniBrowser, driven by Selenium on a screen of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium.webdriver import WebKitGTK, WebKitGTKOptions
from selenium.webdriver.webkitgtk.service import Service

from builder.errors import UsageError
from builder.verify.browser import TIMEOUT, unwrapped, wrapped

SCREEN = "1280x1024x24"


class WebKitGTKBrowser:
    """Selenium's driver as a `Browser`. It tells of neither console nor requests."""

    def __init__(self, driver: WebKitGTK) -> None:
        self.driver = driver
        self.console: list[str] = []
        self.requests: list[str] = []
        driver.set_script_timeout(TIMEOUT + 10)
        driver.set_page_load_timeout(TIMEOUT)

    def goto(self, url: str) -> None:
        """Open an address and wait for its load event."""
        self.driver.get(url)

    def evaluate(self, body: str, *args: Any) -> Any:
        """See `Browser.evaluate`."""
        script = f"return (async (args) => {{ {wrapped(body)} }})(Array.from(arguments))"
        return unwrapped(self.driver.execute_script(script, *args))

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()


@contextmanager
def opened(executable: str) -> Iterator[WebKitGTKBrowser]:
    """Start MiniBrowser.

    Raises:
        UsageError: Its driver or Xvfb isn't installed.
    """
    with _screen() as display, tempfile.TemporaryDirectory(prefix="onnxsite-") as home:
        options = WebKitGTKOptions()
        options.binary_location = executable
        options.add_argument("--automation")
        service = Service(
            _tool("WebKitWebDriver"),
            env={
                **os.environ,
                "DISPLAY": display,
                "GDK_BACKEND": "x11",
                # A fresh profile.
                "HOME": home,
                "XDG_CACHE_HOME": home,
                "XDG_CONFIG_HOME": home,
                "XDG_DATA_HOME": home,
            },
        )
        with warnings.catch_warnings():
            # Selenium's WebKitGTK class uses what Selenium itself deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            browser = WebKitGTKBrowser(WebKitGTK(options=options, service=service))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _screen() -> Iterator[str]:
    """A virtual screen; yields its display's name. The server picks a number that is free."""
    command = [_tool("Xvfb"), "-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None  # noqa: S101
            yield f":{server.stdout.readline().decode().strip()}"
        finally:
            server.terminate()


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise UsageError(name, "it isn't installed", "On Debian, `make browsers` installs it.")
    return path
