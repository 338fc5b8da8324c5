"""Write brotli and gzip twins beside the files of a site, once for each content."""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

import brotli

from builder.bundle.store import sha256
from builder.cache import cache_dir

SKIPPED = frozenset(
    ".png .jpg .jpeg .webp .avif .gif .ico .mp3 .mp4 .ogg .webm .woff .woff2 .zip .gz .br".split()
)
"""Formats that are compressed already."""

SMALLEST = 256
"""Bytes: below this the headers of a response outweigh what is saved."""

WORTH = 0.95
"""A twin is kept if it is at most this share of the original."""

JOBS = 2

SAMPLE = 256 * 1024
"""Bytes that are tried with the fastest method to tell weights from text and wasm."""

DENSE = 0.9
"""Weights keep more than this share of their size: .93 to .94 of fp32 and fp16; wasm keeps .49."""

SCHEME = "2"
"""Counts up whenever the same content would be compressed differently."""


def _brotli(content: bytes) -> bytes:
    """Quality 11 where it pays: 2.30 MB instead of 2.70 for the plain web runtime.

    On weights it saves one to four percent more than quality 5 and takes a hundred times as long,
    seven seconds a megabyte.
    """
    sample = content[:SAMPLE]
    dense = len(zlib.compress(sample, 1)) > DENSE * len(sample)
    return bytes(brotli.compress(content, quality=5 if dense else 11, lgwin=24))


def _gzip(content: bytes) -> bytes:
    """Without a time stamp, so that the same content gives the same bytes."""
    return gzip.compress(content, compresslevel=9, mtime=0)


CODECS: dict[str, Callable[[bytes], bytes]] = {".br": _brotli, ".gz": _gzip}
"""By the ending of the twin. Both release the interpreter lock, so threads run side by side."""


def compress_tree(
    root: Path,
    *,
    suffixes: Collection[str] = (),
    endings: Collection[str] = tuple(CODECS),
    worth: float = WORTH,
    jobs: int = JOBS,
) -> None:
    """Compress every file below `root` that gains by it.

    Results are kept in the cache by content: brotli takes a minute for the web runtime, which is
    the same in every site. Hidden files get no twin: they are for the host, not for visitors.

    Args:
        root: A site's root, or a folder of it.
        suffixes: Which files to compress; none for all.
        endings: Which twins to write, keys of `CODECS`.
        worth: A twin is kept if it is at most this share of the original.
        jobs: Files that are compressed at the same time.

    Raises:
        OSError: A twin can't be written.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [
            pool.submit(_write_twin, path, ending, worth, stop)
            # Longest first: the last task to end is then a short one.
            for path in sorted(root.rglob("*"), key=lambda path: (-path.stat().st_size, path))
            if path.is_file() and path.suffix not in SKIPPED and not path.name.startswith(".")
            if path.stat().st_size >= SMALLEST and (not suffixes or path.suffix in suffixes)
            for ending in endings
        ]
        try:
            done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        for task in done:
            task.result()


def _write_twin(path: Path, ending: str, worth: float, stop: threading.Event) -> None:
    target = path.with_name(path.name + ending)
    if stop.is_set() or target.is_file():
        return
    content = path.read_bytes()
    twin = _compressed(content, ending)
    if twin and len(twin) <= worth * len(content):
        target.write_bytes(twin)


def _compressed(content: bytes, ending: str) -> bytes:
    """The twin's content from the cache or made now; empty if it isn't worth keeping."""
    digest = sha256(content)
    kept = cache_dir() / "compressed" / SCHEME / digest[:2] / f"{digest}{ending}"
    if kept.is_file():
        return kept.read_bytes()
    twin = CODECS[ending](content)
    if len(twin) > WORTH * len(content):
        twin = b""
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_name(f"{kept.name}.{os.getpid()}.{threading.get_ident()}.new")
    partial.write_bytes(twin)
    partial.replace(kept)
    return twin
