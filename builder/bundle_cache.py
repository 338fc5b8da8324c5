"""Bundles of earlier builds, found by the content of everything that went into them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import onnx

from builder.cache import cache_dir
from builder.fetch import Located
from builder.plan import Job
from builder.tools import versions

MANIFEST = "manifest.json"
REPORT = "report.json"
PACKAGE = Path(__file__).resolve().parent
IRRELEVANT = {"cli", "server", "verify", "bench", "_web", "_static"}
"""Parts of the package that no bundle depends on."""


def key(
    job: Job,
    located: Located,
    samples: Sequence[Path],
    calibration: Sequence[Path] = (),
    *,
    shard_bytes: int,
) -> str | None:
    """A digest of all that a bundle is made from, or None where that can't be known.

    A factory in the user's own code may import anything, so its bundle is never cached; the
    factories of the zoo are part of this package and change with its digest.
    """
    recipe, files = located.recipe, located.files
    digest = hashlib.sha256(job.recipe.source.encode())  # it may be pinned by `located` alone
    digest.update(str(job.recipe.sha256).encode())
    if recipe.source in files:
        parts: Iterator[Path] | list[Path] = []
    elif ":" in recipe.source:
        if not recipe.source.startswith("builder.zoo."):
            return None
        parts = []
    elif (job.base / recipe.source).is_dir():
        parts = _inside(job.base / recipe.source)
    else:
        parts = _with_external_data(job.base / recipe.source)
    digest.update(recipe.model_copy(update={"calibration": None}).model_dump_json().encode())
    made_by = [
        versions(recipe, job.base, files),
        platform.python_version(),
        shard_bytes,
        job.portable,
    ]
    digest.update(json.dumps(made_by).encode())
    digest.update(_code().encode())
    fetched = [p for f in files.values() for p in (_inside(f) if f.is_dir() else [f])]
    for path in (*parts, *fetched, *samples, *calibration):
        if not path.is_file():
            return None  # importing it will say what is wrong, better than we can here
        digest.update(path.read_bytes())
    return digest.hexdigest()


def find(digest: str | None) -> Path | None:
    """The folder of a bundle that was kept whole, if there is one."""
    if digest is None:
        return None
    folder = _folder(digest)
    return folder if (folder / MANIFEST).is_file() else None


def keep(digest: str | None, folder: Path) -> Path:
    """Move a finished bundle into the cache, whole or not at all; returns where it is now."""
    if digest is None:
        return folder
    target = _folder(digest)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.new")
    shutil.copytree(folder, partial)
    try:
        partial.rename(target)
    except OSError:  # another build has put the same bundle there meanwhile
        shutil.rmtree(partial)
        if find(digest) is None:
            raise
    return target


def _folder(digest: str) -> Path:
    return cache_dir() / "bundles" / digest[:2] / digest


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] not in IRRELEVANT and path.suffix in {".py", ".toml", ".txt", ".json"}:
            digest.update(f"{relative.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _with_external_data(path: Path) -> Iterator[Path]:
    """An ONNX file and every file that its weights lie in."""
    yield path
    if not path.is_file():
        return
    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception:
        return
    locations = {
        entry.value
        for tensor in proto.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    yield from (path.parent / location for location in sorted(locations))
