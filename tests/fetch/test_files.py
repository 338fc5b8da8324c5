"""Pinned files come from real packages, are verified, and are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import FetchError
from builder.fetch import fetch
from builder.recipe import Pinned


def pinned(ref: str, sha256: str | None = None) -> Pinned:
    return Pinned(ref=ref, sha256=sha256)


NUMBER = pinned(
    "npm:is-number@7.0.0#package.json",
    "51c133f4e41df982aef69027249ff9d7262645029f437d079adc7c83328fb620",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONNXSITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_npm_file_comes_once_and_is_kept(cache: Path) -> None:
    path = fetch(NUMBER)
    assert '"is-number"' in path.read_text()
    assert path.is_relative_to(cache)
    for archive in (cache / "packages").rglob("*.tgz"):
        archive.unlink()  # a second download would need it
    assert fetch(NUMBER) == path


def test_a_kept_file_that_was_changed_is_fetched_again(cache: Path) -> None:
    path = fetch(NUMBER)
    path.write_text("tampered")
    assert '"is-number"' in fetch(NUMBER).read_text()


def test_a_pypi_file_comes_from_its_wheel(cache: Path) -> None:
    digest = "4ce39f422ee71467ccac8bed76beb05f8c321c7f0ceda9279ae2dfa3670106b3"
    path = fetch(pinned("pypi:six==1.16.0#six.py", digest))
    assert '__version__ = "1.16.0"' in path.read_text()


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        (pinned("npm:is-number@7.0.0#package.json", "0" * 64), "SHA-256 is 51c133"),
        (pinned("npm:is-number@7.0.0#pakage.json", "0" * 64), "package.json"),
        (pinned("npm:is-number@7.0.0#package.json"), "no sha256"),
        (pinned("npm:is-number@0.0.999#package.json", "0" * 64), "isn't published"),
        (pinned("pypi:six#six.py", "0" * 64), "exact version"),
        (pinned("weights.bin"), "no such file"),
    ],
)
def test_what_is_wrong_is_named(cache: Path, tmp_path: Path, pin: Pinned, said: str) -> None:
    with pytest.raises(FetchError, match=said):
        fetch(pin, base=tmp_path)


def test_a_local_file_starts_from_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    assert fetch(pinned("labels.txt"), base=tmp_path) == tmp_path / "labels.txt"
    with pytest.raises(FetchError, match="pinned is 0000"):
        fetch(pinned("labels.txt", "0" * 64), base=tmp_path)
