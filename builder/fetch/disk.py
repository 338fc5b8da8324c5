"""The cache on disk: folders for a while, hashes, and what goes wrong there."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.cache import VARIABLE, cache_dir
from builder.errors import FetchError


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def scratch_folder(near: Path) -> Iterator[Path]:
    """A folder for a while, on the disk of `near` so that what is finished can be moved there."""
    near.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=near, prefix=".new-") as folder:
        yield Path(folder)


@contextmanager
def writing() -> Iterator[None]:
    """Turn errors of the disk into ours.

    Raises:
        FetchError: The cache can't be written.
    """
    try:
        yield
    except OSError as error:
        raise FetchError(
            str(cache_dir()),
            f"the cache can't be written ({error.strerror or error})",
            f"Make room there, or name another folder in {VARIABLE}.",
        ) from error
