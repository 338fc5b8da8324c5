"""Turn what a model was trained in into a `Model`, checked against where it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import UsageError
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.sources import onnx_file, torch_factory
from builder.sources.torch_spec import TorchExport

__all__ = ["TorchExport", "load"]


def load(
    recipe: ModelRecipe,
    *,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    progress: Callable[[str], None] | None = None,
) -> Model:
    """Import the model that a recipe names.

    Args:
        recipe: Its `source` is a key of `files`, a path to an .onnx file, `package.module:factory`
            or `file.py:factory`.
        base: The folder that relative paths start from.
        files: Fetched files by their names in the recipe; a factory gets those it has parameters
            for.
        work: An empty folder for intermediate files; may be deleted afterwards.
        progress: Told each step of an import that takes long.

    Returns:
        The model; its events say what was corrected, and which exporter was used.

    Raises:
        SourceError: The source can't become a model; the message names file and node.
        UsageError: The source has no known form, or `shapes` don't fit.
    """
    source = recipe.source
    if source in files:
        return onnx_file.load(files[source], shapes=recipe.shapes)
    if torch_factory.matches(source):
        return torch_factory.load(
            source,
            base=base,
            files=files,
            work=work,
            shapes=recipe.shapes,
            progress=progress or (lambda _step: None),
        )
    path = base / source
    if path.suffix == ".onnx" or path.exists():
        return onnx_file.load(path, shapes=recipe.shapes)
    raise UsageError(
        source,
        "it's no file, and no source that can be imported",
        "Name an .onnx file, package.module:factory, or zoo:NAME.",
    )
