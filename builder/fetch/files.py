"""Pinned files, verified and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from builder.cache import cache_dir
from builder.errors import FetchError
from builder.fetch import hub, packages, web
from builder.fetch.disk import scratch_folder, sha256, writing
from builder.fetch.reference import FORM, Reference, parse
from builder.recipe import Pinned

EXTRACT: dict[str, Callable[[Reference, Path], None]] = {
    "pypi": packages.extract,
    "npm": packages.extract,
    "hf": hub.extract,
    "web": web.extract,
}
"""How to get a file, by the kind of its reference."""


def fetch(pinned: Pinned, *, base: Path | None = None) -> Path:
    """The file that `pinned` names, from the cache, its package or its hub.

    Args:
        pinned: A reference with a hash, or a local path.
        base: The folder that a relative path starts from; the current one if left out.

    Returns:
        A path whose content has the pinned hash and whose name is the file's own. Don't write to
        it.

    Raises:
        FetchError: Not reachable, not in there, not the pinned content, or no place for it.
    """
    reference = parse(pinned.ref)
    if reference is None:
        return _local(pinned, base or Path.cwd())
    if pinned.sha256 is None:
        raise FetchError(
            pinned.ref, "it has no sha256", f"Pin what this prints: {command(pinned.ref)}."
        )
    target = cache_dir() / "files" / pinned.sha256 / Path(reference.member).name
    if target.is_file() and sha256(target) == pinned.sha256:
        return target
    with writing(), scratch_folder(target.parent.parent) as scratch:
        fresh = scratch / target.name
        EXTRACT[reference.kind](reference, fresh)
        actual = sha256(fresh)
        if actual != pinned.sha256:
            raise FetchError(
                pinned.ref,
                f"its SHA-256 is {actual}, pinned is {pinned.sha256}",
                "Find out why the content differs before you pin it again.",
            )
        target.parent.mkdir(exist_ok=True)
        fresh.replace(target)  # at once: two builds that fetch it together both end up right
    return target


def digest(ref: str) -> str:
    """The SHA-256 of the file that a reference names, to be pinned.

    Raises:
        FetchError: It isn't a reference, or it can't be fetched.
    """
    return obtain(ref)[1]


def obtain(ref: str) -> tuple[Path, str]:
    """The file that a reference names, as it is today, and its SHA-256 to pin it by.

    Raises:
        FetchError: It isn't a reference, or it can't be fetched.
    """
    reference = parse(ref)
    if reference is None:
        raise FetchError(ref, "it isn't a reference to a file of a package", FORM)
    kept = cache_dir() / "files"
    with writing(), scratch_folder(kept) as scratch:
        fresh = scratch / Path(reference.member).name
        EXTRACT[reference.kind](reference, fresh)
        actual = sha256(fresh)
        target = kept / actual / fresh.name
        target.parent.mkdir(exist_ok=True)
        return fresh.replace(target), actual


def _local(pinned: Pinned, base: Path) -> Path:
    path = base / pinned.ref
    if not path.is_file():
        raise FetchError(
            pinned.ref, "there is no such file", "Relative paths start from the recipe's folder."
        )
    actual = sha256(path) if pinned.sha256 is not None else None
    if actual != pinned.sha256:
        raise FetchError(
            pinned.ref,
            f"its SHA-256 is {actual}, pinned is {pinned.sha256}",
            "Pin it again if you changed it on purpose.",
        )
    return path


def command(ref: str) -> str:
    """What prints a reference with its hash."""
    return f"python -m builder.fetch '{ref}'"
