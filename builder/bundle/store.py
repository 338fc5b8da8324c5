"""A folder of immutable files, each named by the SHA-256 of its content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from builder.partition import SHARD_BYTES, split

if TYPE_CHECKING:
    from builder.bundle._manifest import Blob, File

FOLDER = "files"


def sha256(content: bytes | memoryview) -> str:
    """SHA-256 of `content` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


class Store:
    """The `files/` folder below a site's root.

    Args:
        root: The site's root; paths in the results are relative to it.
        limit: Largest shard in bytes.
    """

    def __init__(self, root: Path, limit: int = SHARD_BYTES) -> None:
        self.root = root
        self.limit = limit

    def add(self, content: bytes | memoryview, suffix: str) -> File:
        """Store `content` once; the same bytes give the same file, whoever adds them.

        Raises:
            OSError: The file can't be written.
        """
        digest = sha256(content)
        path = f"{FOLDER}/{digest}{suffix}"
        target = self.root / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return {"path": path, "size": len(content), "sha256": digest}

    def add_blob(self, content: bytes, name: str) -> Blob:
        """Store `content` as consecutive shards of at most the store's limit."""
        view = memoryview(content)
        shards = [self.add(view[start:end], ".bin") for start, end in split(len(view), self.limit)]
        return {"name": name, "size": len(view), "sha256": sha256(view), "shards": shards}
