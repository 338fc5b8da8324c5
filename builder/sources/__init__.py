"""Turn what a model was trained in into a `Model`, checked against where it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.errors import UnsupportedError, UsageError
from builder.generation import Parts
from builder.model import WHOLE, Model
from builder.recipe import ModelRecipe
from builder.sources import (
    ctranslate2,
    estimator,
    gguf,
    huggingface,
    onnx_file,
    onnx_forms,
    tensorflow,
    tfjs,
    torch_factory,
    torch_files,
)
from builder.sources.torch_spec import TorchExport, TorchParts

__all__ = ["IMPORTERS", "TorchExport", "TorchParts", "importer_of", "load", "load_parts"]


@dataclass(frozen=True)
class Given:
    """What an importer works on.

    Attributes:
        recipe: What was asked for.
        path: Where its source lies, if it is a file or folder.
        base: The folder that relative paths start from.
        files: Fetched files by their names in the recipe.
        work: An empty folder.
        progress: Told each step.
    """

    recipe: ModelRecipe
    path: Path
    base: Path
    files: Mapping[str, Path]
    work: Path
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Importer:
    """A row of `IMPORTERS`.

    Attributes:
        what: For people.
        matches: Whether it is for a source, and where that lies if it is a file or folder.
        load: Makes the model, or its parts.
        packages: Names of those that shape what it makes, beside the builder's own.
    """

    what: str
    matches: Callable[[str, Path], bool]
    load: Callable[[Given], Model | Parts]
    packages: tuple[str, ...] = ()


def _load_factory(given: Given) -> Parts:
    return torch_factory.load(
        given.recipe.source,
        base=given.base,
        files=given.files,
        work=given.work,
        shapes=given.recipe.shapes,
        progress=given.progress,
    )


def _load_with(factory: str) -> Callable[[Given], Parts]:
    """Import by a factory of our own, which gets the source's `path`."""

    def load(given: Given) -> Parts:
        return torch_factory.load(
            factory,
            base=given.base,
            files={"path": given.path},
            work=given.work,
            shapes=given.recipe.shapes,
            progress=given.progress,
            name=given.path.resolve().name,
        )

    return load


def _load_torch(given: Given) -> Parts:
    recipe = given.recipe
    return torch_factory.load(
        torch_files.SOURCE,
        base=given.base,
        files={"path": given.path},
        work=given.work,
        shapes={},  # they make its inputs; there is nothing to correct
        progress=given.progress,
        name=given.path.name,
        arguments={"shapes": recipe.shapes, "types": recipe.types, "trust": recipe.trust},
    )


def _load_estimator(given: Given) -> Model:
    return estimator.load(
        given.path,
        trust=given.recipe.trust,
        work=given.work,
        shapes=given.recipe.shapes,
        progress=given.progress,
    )


def _load_tensorflow(given: Given) -> Model:
    return tensorflow.load(
        given.path,
        trust=given.recipe.trust,
        work=given.work,
        shapes=given.recipe.shapes,
        progress=given.progress,
    )


def _load_tfjs(given: Given) -> Model:
    return tfjs.load(
        given.path,
        fetched=given.files,
        work=given.work,
        shapes=given.recipe.shapes,
        progress=given.progress,
    )


def _load_onnx(given: Given) -> Model:
    path = onnx_forms.find(given.path, given.work, given.recipe.part)
    return onnx_file.load(path, shapes=given.recipe.shapes)


IMPORTERS = (
    Importer(
        "a PyTorch factory as package.module:factory or file.py:factory",
        lambda source, _path: torch_factory.matches(source),
        _load_factory,
        ("torch",),
    ),
    Importer(
        "the JSON of a TensorFlow.js model",
        lambda _source, path: tfjs.matches(path),
        _load_tfjs,
        tensorflow.PACKAGES,
    ),
    Importer(
        "a SavedModel, or a file of Keras or TensorFlow Lite",
        lambda _source, path: tensorflow.matches(path),
        _load_tensorflow,
        tensorflow.PACKAGES,
    ),
    Importer(
        "a trained estimator of scikit-learn, LightGBM or XGBoost",
        lambda _source, path: path.suffix in estimator.FORMATS,
        _load_estimator,
        estimator.PACKAGES,
    ),
    Importer(
        "a folder of the Hugging Face Hub",
        lambda _source, path: huggingface.matches(path),
        _load_with(huggingface.SOURCE),
        ("torch", "transformers"),
    ),
    Importer(
        "a folder or a model.bin of Whisper as CTranslate2 has it",
        lambda _source, path: ctranslate2.matches(path),
        _load_with(ctranslate2.SOURCE),
        ("torch", "transformers"),
    ),
    Importer(
        "a .gguf file of a language model",
        lambda _source, path: path.suffix == gguf.ENDING,
        _load_with(gguf.SOURCE),
        ("gguf", "torch", "transformers"),
    ),
    Importer(
        "an exported program (.pt2) or TorchScript of PyTorch",
        lambda _source, path: torch_files.matches(path),
        _load_torch,
        ("torch",),
    ),
    Importer(
        "an .onnx file, a .gz, .zip or .tar.gz of one, or a folder with one",
        lambda _source, path: path.suffix == ".onnx" or path.exists(),
        _load_onnx,
    ),
)
"""The first one that a source is for takes it; whatever else exists is taken for an ONNX file, and
refused with what it looks like."""


def importer_of(recipe: ModelRecipe, base: Path, files: Mapping[str, Path]) -> Importer:
    """The row of `IMPORTERS` that is for a recipe's source.

    Raises:
        UsageError: There is none.
    """
    source = recipe.source
    path = files.get(source, base / source)
    found = next((row for row in IMPORTERS if row.matches(source, path)), None)
    if found is None:
        known = "; ".join(importer.what for importer in IMPORTERS)
        raise UsageError(
            source,
            "it's no file, and no source that can be imported",
            f"Name {known}; or zoo:NAME.",
        )
    return found


def load(
    recipe: ModelRecipe,
    *,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    progress: Callable[[str], None] | None = None,
) -> Model:
    """Import a model that is in one part; the rest is as with `load_parts`.

    Raises:
        UnsupportedError: It is in several.
    """
    models = load_parts(recipe, base=base, files=files, work=work, progress=progress).models
    if len(models) > 1:
        raise UnsupportedError(
            recipe.source,
            f"it is run in parts: {', '.join(models)}",
            f"Name one: --part {next(iter(models))}, or part in a recipe.",
        )
    return next(iter(models.values()))


def load_parts(
    recipe: ModelRecipe,
    *,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    progress: Callable[[str], None] | None = None,
) -> Parts:
    """Import the model that a recipe names.

    Args:
        recipe: Its `source` is a key of `files`, or what a row of `IMPORTERS` says.
        base: The folder that relative paths start from.
        files: Fetched files by their names in the recipe; a factory gets those it has parameters
            for.
        work: An empty folder for intermediate files; may be deleted afterwards.
        progress: Told each step of an import that takes long.

    Returns:
        Its parts, or the one that the recipe names; their events say what was corrected, and which
        exporter was used.

    Raises:
        SourceError: The source can't become a model; the message names file and node.
        UsageError: The source has no known form, `shapes` don't fit, there is no such part, or
            reading it would run code that isn't trusted.
    """
    path = files.get(recipe.source, base / recipe.source)
    given = Given(recipe, path, base, files, work, progress or (lambda _step: None))
    made = importer_of(recipe, base, files).load(given)
    parts = made if isinstance(made, Parts) else Parts({recipe.part or WHOLE: made})
    if recipe.part is None:
        return parts
    if recipe.part not in parts.models:
        raise UsageError(
            f"part '{recipe.part}' of {recipe.source}",
            "there is no such part",
            f"Choose from {', '.join(parts.models)}.",
        )
    return Parts({recipe.part: parts.models[recipe.part]}, parts.generation)
