"""Replace an output folder as a whole: the new one is there, or the old one still is."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder import __version__
from builder.errors import OutputError

MARKER = ".onnxsite.json"
"""Says that a folder was made here, so that it may be replaced."""

CAUSES = {
    errno.ENOSPC: ("no space is left on the disk", "Free some, or choose another folder with -o."),
    errno.EDQUOT: ("the disk quota is used up", "Free some, or choose another folder with -o."),
    errno.EACCES: ("permission denied", "Choose a folder you may write to with -o."),
    errno.EPERM: ("permission denied", "Choose a folder you may write to with -o."),
    errno.EROFS: ("the file system is read-only", "Choose another folder with -o."),
}


def check(out: Path) -> None:
    """Refuse to replace what wasn't made here.

    Raises:
        OutputError: `out` is a file, or a folder with content but without our marker.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(str(out), "it's a file, not a folder", "Choose another name with -o.")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise OutputError(
            str(out),
            "the folder has content that wasn't built here, and a build replaces the whole folder",
            "Choose an empty or a new folder with -o.",
        )


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it takes `out`'s place only if the block ends well.

    Whatever stops the block (an error, Ctrl-C, a full disk), `out` stays as it was and nothing is
    left beside it.

    Raises:
        OutputError: `out` isn't ours, or the file system refuses.
    """
    out = out.resolve()
    check(out)
    staging = out.with_name(f".{out.name}.{os.getpid()}.new")
    retired = out.with_name(f".{out.name}.{os.getpid()}.old")
    try:
        _sweep(out)
        staging.mkdir(parents=True)
        yield staging
        marker = {"tool": "onnxsite", "version": __version__}
        (staging / MARKER).write_text(json.dumps(marker) + "\n", encoding="utf-8")
        if out.exists():
            out.rename(retired)
        try:
            staging.rename(out)
        except BaseException:
            if retired.exists():
                retired.rename(out)
            raise
    except OSError as error:
        why, remedy = CAUSES.get(error.errno or 0, (str(error), "Choose another folder with -o."))
        raise OutputError(str(error.filename or out), why, remedy) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(retired, ignore_errors=True)


def _sweep(out: Path) -> None:
    """Remove what a build that was killed outright has left beside `out`."""
    for leftover in out.parent.glob(f".{out.name}.*.new"):
        pid = leftover.name.split(".")[-2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
