"""From a URL's path to a file below the site's root: its type, its caching and its twins."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from werkzeug.datastructures import Accept
from werkzeug.security import safe_join

from builder.bundle.headers import IMMUTABLE, MIME_TYPES, REVALIDATE, WORKER_POLICY

ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""Content codings with the ending of their twins, the better one first."""

CONTENT_NAMED = re.compile(r"files/[^/]+|assets/(.+/)?[^/]+-[0-9a-f]{8,}\.[^/]+")
"""Paths whose bytes never change; all others are entry points."""

WORKER = re.compile(r"assets/worker-[0-9a-f]{8,}\.js")
"""The worker that runs the model."""

UNKNOWN = "application/octet-stream"

# Without the machine's own tables, so that every machine serves the same types.
_TYPES = mimetypes.MimeTypes(filenames=())
for _ending, _type in MIME_TYPES.items():
    _TYPES.add_type(_type, _ending)


@dataclass(frozen=True)
class Twin:
    """One encoding of a file.

    Attributes:
        path: The file that holds it.
        encoding: The content coding, empty for the file itself.
        etag: A strong validator, different for each encoding.
    """

    path: Path
    encoding: str
    etag: str


@dataclass(frozen=True)
class SiteFile:
    """A file of the site; `name` is its path below `root`."""

    root: Path
    name: str
    path: Path

    @property
    def mimetype(self) -> str:
        """The media type by the ending."""
        return _TYPES.types_map[True].get(self.path.suffix.lower(), UNKNOWN)

    @property
    def cache_control(self) -> str:
        """For ever if the name changes with the content, else to be asked about every time."""
        return IMMUTABLE if CONTENT_NAMED.fullmatch(self.name) else REVALIDATE

    @property
    def policy(self) -> str | None:
        """The Content-Security-Policy that it wants beside its page's own."""
        return WORKER_POLICY if WORKER.fullmatch(self.name) else None

    @property
    def has_twins(self) -> bool:
        """Whether the answer depends on Accept-Encoding."""
        return bool(self._twins())

    def negotiate(self, accepted: Accept) -> Twin:
        """The encoding that the client likes best; the file itself if it likes none.

        RFC 9110, 12.5.3: no header, or one that names no coding we have, means the file itself,
        and so does an `identity` that is preferred by its q-value.
        """
        # A client that lists codings without `identity` takes it too, but rather not.
        plain = dict(accepted).get("identity", 0.0)
        twins = [
            (quality, encoding, path)
            for encoding, path in self._twins().items()
            if (quality := accepted.quality(encoding)) > 0
        ]
        # max() keeps the first of equals, and ENCODINGS has the better one first.
        best = max(twins, key=lambda twin: twin[0], default=None)
        tag = self._tag()
        if best is None or best[0] < plain:
            return Twin(self.path, "", tag)
        return Twin(best[2], best[1], f"{tag}-{best[1]}")

    def _twins(self) -> dict[str, Path]:
        beside = {
            encoding: self.path.with_name(self.path.name + ending)
            for encoding, ending in ENCODINGS.items()
        }
        return {encoding: path for encoding, path in beside.items() if _is_within(path, self.root)}

    def _tag(self) -> str:
        stat = self.path.stat()
        return _digest(self.path, stat.st_mtime_ns, stat.st_size)


def find(root: Path, name: str) -> SiteFile | None:
    """The file that `name` (a decoded path without a leading slash) stands for.

    A folder stands for its index.html, if the path ends with a slash. Hidden files, and what
    symbolic links or dots would reach outside the root, aren't there.
    """
    wanted = name + "index.html" if name == "" or name.endswith("/") else name
    path = _inside(root, wanted)
    return SiteFile(root, wanted, path) if path is not None and path.is_file() else None


def is_folder(root: Path, name: str) -> bool:
    """Whether `name` would be a page if it ended with a slash."""
    return find(root, f"{name}/") is not None


def _inside(root: Path, name: str) -> Path | None:
    if "\0" in name or any(part.startswith(".") for part in name.split("/")):
        return None
    joined = safe_join(str(root), name)
    if joined is None or not Path(joined).resolve().is_relative_to(root):
        return None
    return Path(joined)


def _is_within(path: Path, root: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(root)


@lru_cache(maxsize=4096)
def _digest(path: Path, _changed: int, _size: int) -> str:
    """Of the content; `_changed` and `_size` make a changed file a new entry of the cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
