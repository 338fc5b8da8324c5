"""The three browser engines: where each is found, how it is started, and what it can prove."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builder.errors import MissingExtraError, UsageError
from builder.verify.browser import Browser

VULKAN_DRIVERS = Path("/usr/share/vulkan/icd.d")
"""Where Linux distributions describe Vulkan drivers."""

LAVAPIPE = "lvp_icd*.json"
"""Mesa's driver without a GPU: it gives Firefox WebGPU with 16-bit floats."""


@dataclass(frozen=True)
class Engine:
    """A row of `ENGINES`.

    Attributes:
        name: Key of the table.
        title: For people.
        executables: Where to look for it: names on the path, or patterns of absolute paths.
        devices: Where it can run a model here: `wasm`, and `webgpu` if it has an adapter.
        features: WebGPU features of that adapter, without a GPU in the machine.
        start: Opens it; takes the executable and whether to switch WebGPU on.
    """

    name: str
    title: str
    executables: tuple[str, ...]
    devices: tuple[str, ...]
    features: tuple[str, ...]
    start: Callable[[str, bool], AbstractContextManager[Browser]]


# Without these a browser looks for its maker's hosts at every start.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)

CHROMIUM_WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


def _chromium(executable: str, webgpu: bool) -> AbstractContextManager[Browser]:
    from builder.verify import playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    flags = [
        *QUIET,
        "--disable-dev-shm-usage",
        *(CHROMIUM_WEBGPU if webgpu else ("--disable-blink-features=WebGPU",)),
        # Its sandbox refuses to run as root.
        *(["--no-sandbox"] if root else []),
    ]
    return playwright.opened("chromium", executable_path=executable, args=flags)


def _firefox(executable: str, webgpu: bool) -> AbstractContextManager[Browser]:
    from builder.verify import playwright

    preferences = {
        "dom.webgpu.enabled": webgpu,
        "dom.webgpu.workers.enabled": webgpu,
        "gfx.webgpu.ignore-blocklist": True,
    }
    return playwright.opened(
        "firefox",
        # Playwright's own build of Firefox isn't in any registry; this channel drives Mozilla's.
        channel="moz-firefox",
        executable_path=executable,
        firefox_user_prefs=preferences,
        env=_lavapipe(),
    )


def _webkitgtk(executable: str, webgpu: bool) -> AbstractContextManager[Browser]:
    from builder.verify import webkitgtk

    del webgpu  # it has none
    return webkitgtk.opened(executable)


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "chromium",
            "Chromium",
            ("chromium", "chromium-browser", "google-chrome"),
            ("wasm", "webgpu"),
            (),
            _chromium,
        ),
        Engine(
            "firefox",
            "Firefox",
            ("firefox-esr", "firefox"),
            ("wasm", "webgpu"),
            ("shader-f16",),
            _firefox,
        ),
        Engine(
            "webkitgtk",
            "WebKitGTK (Safari's engine)",
            (
                "/usr/lib/*/webkit2gtk-4.*/MiniBrowser",
                "/usr/lib/webkit2gtk-4.*/MiniBrowser",
                "/usr/libexec/webkit2gtk-4.*/MiniBrowser",
            ),
            ("wasm",),
            (),
            _webkitgtk,
        ),
    )
}
"""By name."""


def installed() -> list[str]:
    """Names of the engines that this machine has."""
    return [name for name in ENGINES if find(name) is not None]


@cache
def find(name: str) -> str | None:
    """The executable of an engine, or None."""
    for candidate in ENGINES[name].executables:
        if candidate.startswith("/"):
            found = sorted(Path("/").glob(candidate[1:]))
            if found:
                return str(found[-1])
        elif path := shutil.which(candidate):
            return path
    return None


@contextmanager
def launch(name: str, *, webgpu: bool = True) -> Iterator[Browser]:
    """Start an engine with a fresh profile for as long as the block lasts.

    Args:
        name: A key of `ENGINES`.
        webgpu: Whether pages may see WebGPU.

    Raises:
        UsageError: The browser isn't installed.
        MissingExtraError: The package that drives it isn't installed.
    """
    executable = find(name)
    if executable is None:
        raise UsageError(
            ENGINES[name].title,
            "it isn't installed",
            "On Debian, `make browsers` installs it.",
        )
    try:
        opened = ENGINES[name].start(executable, webgpu)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"package '{error.name}'",
            "it isn't installed, and it drives the browser",
            "Install it with `pip install 'onnxsite[verify]'`.",
        ) from error
    with opened as browser:
        yield browser


def _lavapipe() -> dict[str, str | float | bool]:
    """The environment in which Firefox finds the software driver, where there is one."""
    drivers = ":".join(str(path) for path in sorted(VULKAN_DRIVERS.glob(LAVAPIPE)))
    environment: dict[str, str | float | bool] = dict(os.environ)
    # It wants a folder for its sockets; a service or a container often has none.
    environment.setdefault("XDG_RUNTIME_DIR", "/tmp")  # noqa: S108
    if drivers:
        environment |= {"VK_DRIVER_FILES": drivers, "VK_ICD_FILENAMES": drivers}
    return environment
