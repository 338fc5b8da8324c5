"""Import what scikit-learn, LightGBM and XGBoost have trained, proved against them.

A pickle runs whatever code it holds when it is read, so one is read only by a user who trusts it.
LightGBM's and XGBoost's own files are data.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.errors import MissingExtraError, NotAModelError, UsageError
from builder.model import Event, Model, Provenance
from builder.sources import onnx_file, onnx_read, process

EXPORTER = "builder.sources.estimator_export"


@dataclass(frozen=True)
class Format:
    """How a file is read.

    Attributes:
        kind: A key of `estimator_export.READERS`.
        packages: Modules that it takes.
        runs_code: Whether reading it runs code out of it.
    """

    kind: str
    packages: tuple[str, ...]
    runs_code: bool = False


_PICKLE = Format("pickle", ("sklearn", "skl2onnx", "joblib"), runs_code=True)

FORMATS: Mapping[str, Format] = {
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".joblib": _PICKLE,
    ".txt": Format("lightgbm", ("lightgbm", "onnxmltools", "skl2onnx")),
    ".ubj": Format("xgboost", ("xgboost", "onnxmltools", "skl2onnx")),
    ".json": Format("xgboost", ("xgboost", "onnxmltools", "skl2onnx")),
}
"""By the ending of the file's name."""

PACKAGES = (
    "joblib",
    "lightgbm",
    "onnxmltools",
    "scikit-learn",
    "skl2onnx",
    "xgboost-cpu",
    "xgboost",
)
"""Any of them may shape what a pickle becomes, as far as they are installed."""


def load(
    path: Path,
    *,
    trust: bool,
    work: Path,
    shapes: onnx_file.Shapes,
    progress: Callable[[str], None],
) -> Model:
    """Convert a trained estimator or pipeline, and hold it against its framework.

    Columns that a pipeline was fitted on by name become inputs of those names, each [batch, 1];
    columns of categories are places in a vocabulary.

    Args:
        path: A file with an ending of `FORMATS`.
        trust: Whether code in the file may run.
        work: An empty folder.
        shapes: See `onnx_file.load`.
        progress: Told each step.

    Raises:
        UsageError: Reading it would run code, and the user hasn't said that it may.
        MissingExtraError: The framework or its converter isn't installed.
        ImportMismatchError: The graph predicts something else than the framework.
        SourceError: It can't be read or converted.
    """
    chosen = FORMATS[path.suffix]
    if not path.is_file():
        raise NotAModelError(str(path), "there is no such file")
    if chosen.runs_code and not trust:
        raise UsageError(
            path.name,
            "it's a pickle, and reading one runs whatever code is in it",
            "If you know where it comes from, build with --trust.",
        )
    missing = [name for name in chosen.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            path.name,
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            "Install what it takes: pip install 'onnxsite[sklearn]'.",
        )
    request = {"path": str(path.resolve()), "kind": chosen.kind}
    report = process.run(EXPORTER, path.name, request, work, progress)
    proto = onnx_read.parse(path.name, (work / "model.onnx").read_bytes())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    model = onnx_file.from_proto(proto, Provenance(path.name, sha256=digest), shapes=shapes)
    model.events[:0] = [Event(level, "import", message) for level, message in report["events"]]
    return model
