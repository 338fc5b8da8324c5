"""Versions of everything that shapes the bytes of a build."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from builder import __version__, sources
from builder.recipe import ModelRecipe

ALWAYS = ("numpy", "onnx", "onnx-ir", "onnxruntime", "pillow")


def versions(recipe: ModelRecipe, base: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """Package name to version; a framework is listed only if the source needs it and it is there.

    Args:
        recipe: What is built.
        base: The folder that its relative paths start from.
        files: Its fetched files by name.

    Raises:
        UsageError: Its source is nothing that can be imported.
    """
    found = {"onnxsite": __version__, **{name: version(name) for name in ALWAYS}}
    for name in sources.importer_of(recipe, base, files).packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # the importer says so, if it can't do without
    return found
