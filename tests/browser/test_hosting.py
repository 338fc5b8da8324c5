"""The site on a host: below a path, apart from all other origins, and with files that went bad."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.server import create_app, running
from builder.verify import Browser, PageError
from tests.browser import drive
from tests.browser.site import MODELS, Site

LOAD = """
const [root, id, options] = args;
const { load } = await import(`${root}onnxsite.js`);
const model = await load(`${root}models/${id}/`, options);
await model.dispose();
"""


def test_below_a_path_and_within_its_origin(site: Site, chromium: Browser) -> None:
    prefix = "/some/repo/"
    with running(create_app(site.folder, prefix=prefix), prefix=prefix) as url:
        first = len(chromium.requests)
        for model in MODELS:
            chromium.goto(url)
            chromium.driver.locator(f'a[href$="models/{model}/"]').first.click()
            chromium.driver.wait_for_url(f"{url}models/{model}/")
            chromium.goto(f"{url}models/{model}/?device=wasm")
            drive.ready(chromium)
        drive.click(chromium, "use-reference")
        drive.click(chromium, "run")
        drive.result(chromium, "output", 2)
        asked = [address for address in chromium.requests[first:] if ":" in address]
    outside = {address for address in asked if not address.startswith((url, "blob:", "data:"))}
    assert outside == set()
    # Requests of the worker are among those that were seen.
    assert any("/files/" in address and address.endswith(".bin") for address in asked)


def spoil(content: bytes) -> bytes:
    """Another byte in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def page_instead(_content: bytes) -> bytes:
    """What a host with a catch-all rule answers."""
    return b"<!doctype html><title>our single-page application</title>"


def cut_short(content: bytes) -> bytes:
    """An upload that broke off."""
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [spoil, page_instead, cut_short, None])
def test_a_damaged_file_is_named(
    site: Site, chromium: Browser, tmp_path: Path, damage: Callable[[bytes], bytes] | None
) -> None:
    folder = tmp_path / "site"
    shutil.copytree(site.folder, folder, copy_function=hard_link)
    shard = site.variants("magika")["fp32"]["weights"][0]["shards"][0]
    replace(folder / shard["path"], damage)
    with running(create_app(folder)) as url:
        chromium.goto(f"{url}404.html")
        with pytest.raises(PageError) as caught:
            chromium.evaluate(LOAD, url, "magika", {"device": "wasm", "dtype": "fp32"})
        assert caught.value.name in {"IntegrityError", "FetchError"}
        assert url + shard["path"] in caught.value.message

        chromium.goto(f"{url}models/magika/?device=wasm&dtype=fp32")
        said = drive.fails(chromium)
        assert url + shard["path"] in said
        assert "upload the" in said.lower() or "try again" in said.lower()


def test_a_runtime_that_is_damaged_is_named(site: Site, chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    shutil.copytree(site.folder, folder, copy_function=hard_link)
    flavours: Any = site.manifest("mixed")["runtime"]["flavours"]
    small = next(flavour for flavour in flavours if flavour["name"] == "wasm")
    shard = small["wasm"]["shards"][-1]
    replace(folder / shard["path"], page_instead)
    with running(create_app(folder)) as url:
        chromium.goto(f"{url}404.html")
        with pytest.raises(PageError, match=shard["sha256"]):
            chromium.evaluate(LOAD, url, "mixed", {"device": "wasm"})


def hard_link(source: str, target: str) -> None:
    """Copy without copying: only what is replaced afterwards takes room."""
    Path(target).hardlink_to(source)


def replace(file: Path, damage: Callable[[bytes], bytes] | None) -> None:
    """Damage a file, or remove it; its twins go, so that all clients see the same."""
    content = file.read_bytes()
    for ending in ("", ".br", ".gz"):
        file.with_name(file.name + ending).unlink(missing_ok=True)
    if damage is not None:
        file.write_bytes(damage(content))
