"""The forms that an ONNX model comes in: a file, compressed or in an archive, or a folder."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
from pathlib import Path

from builder.errors import NotAModelError

ENDING = ".onnx"

TARBALLS = (".tar.gz", ".tgz", ".tar")

HUB_NAMES = ("onnx/model.onnx", "model.onnx")
"""What the fp32 graph is called in folders of the Hugging Face Hub, which hold its variants too."""


def find(path: Path, work: Path, part: str | None = None) -> Path:
    """The .onnx file itself, unpacked where it must be.

    Args:
        path: A file of the ending .onnx, .gz, .zip or .tar.gz, or a folder with a model in it.
        work: An empty folder, for what is unpacked.
        part: Which of several models, by its file's name without the ending.

    Raises:
        NotAModelError: The archive is damaged, or there is no model in it, or more than one.
    """
    if path.is_dir():
        return _only(path, path, part)
    target = work / "unpacked"
    try:
        if path.name.endswith(TARBALLS):
            with tarfile.open(path) as tarball:
                tarball.extractall(target, filter="data")
            return _only(target, path, part)
        if path.suffix == ".gz":
            target.mkdir()
            file = target / path.name.removesuffix(".gz")
            with gzip.open(path) as packed, file.open("wb") as stream:
                shutil.copyfileobj(packed, stream)
            return file
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target)  # noqa: S202  keeps every name inside
            return _only(target, path, part)
    except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise NotAModelError(
            path.name, f"it can't be unpacked ({error})", "Download or pack it again."
        ) from error
    return path


def _only(folder: Path, named: Path, part: str | None) -> Path:
    for name in HUB_NAMES:
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.rglob(f"*{ENDING}"))
    if len(found) > 1 and part is not None:
        found = [file for file in found if file.stem == part] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join(file.relative_to(folder).as_posix() for file in found)
    raise NotAModelError(
        named.name,
        f"it holds {len(found)} models ({names})" if found else "there is no .onnx file in it",
        f"Name one of them: --part {found[0].stem}."
        if found
        else "Name a folder or archive with a model.",
    )
