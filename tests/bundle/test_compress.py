"""Twins decompress to their originals, and are made only where they pay."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import brotli
import pytest

from builder.bundle.compress import compress_tree

TEXT = b"the same words again and again. " * 200
NOISE = random.Random(1).randbytes(8000)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONNXSITE_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "site"
    (root / "files").mkdir(parents=True)
    for name, content in {
        "index.html": TEXT,
        "files/weights.bin": NOISE,
        "files/picture.png": TEXT,
        "small.css": TEXT[:100],
        ".onnxsite.json": TEXT,
    }.items():
        (root / name).write_bytes(content)
    return root


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_only_what_gains_has_twins_and_they_hold_the_same(tree: Path) -> None:
    before = names(tree)
    compress_tree(tree)
    assert sorted({*names(tree)} - {*before}) == ["index.html.br", "index.html.gz"]
    assert brotli.decompress((tree / "index.html.br").read_bytes()) == TEXT
    assert gzip.decompress((tree / "index.html.gz").read_bytes()) == TEXT


def test_twice_gives_the_same_bytes_with_and_without_the_cache(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = tree / "index.html.br", tree / "index.html.gz"
    kinds: list[list[bytes]] = []
    for cache in ("cache", "cache", "another"):
        monkeypatch.setenv("ONNXSITE_CACHE", str(tmp_path / cache))
        os.utime(tree / "index.html", (1, 1 + len(kinds)))
        compress_tree(tree)
        kinds.append([twin.read_bytes() for twin in twins])
        for twin in twins:
            twin.unlink()
    assert kinds[0] == kinds[1] == kinds[2]


def test_a_twin_that_cannot_be_written_is_an_error(tree: Path) -> None:
    (tree / "index.html.gz").mkdir()
    with pytest.raises(OSError, match=r"index\.html\.gz"):
        compress_tree(tree)
