"""Import what TensorFlow, Keras and TensorFlow Lite have saved, proved against them.

A Keras file can hold code (`Lambda` layers), which runs only for a user who trusts it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import MissingExtraError, NotAModelError
from builder.model import Event, Model, Provenance
from builder.sources import keras_code, onnx_file, onnx_read, process

EXPORTER = "builder.sources.tensorflow_export"

GRAPH = "saved_model.pb"
"""What a folder that TensorFlow saved has."""

FORMATS: Mapping[str, str] = {
    ".keras": "keras",
    ".h5": "keras",
    ".hdf5": "keras",
    ".tflite": "tflite",
}
"""Keys of `tensorflow_models.READERS` by the ending of the file's name."""

NEEDS = ("tensorflow", "tf2onnx")

PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "tf2onnx")
"""Any of them may shape what a model becomes, as far as they are installed."""


def matches(path: Path) -> bool:
    """Whether a path is a SavedModel, or a file of Keras or TensorFlow Lite."""
    return path.suffix in FORMATS or path.name == GRAPH or (path / GRAPH).is_file()


def load(
    path: Path,
    *,
    trust: bool,
    work: Path,
    shapes: onnx_file.Shapes,
    progress: Callable[[str], None],
) -> Model:
    """Export a model with tf2onnx, and hold the graph against its framework.

    Inputs and outputs are called as the serving signature, the model's layers or the TFLite
    signature call them. Free axes get names: `batch`, `height` and so on (see `axes`).

    Args:
        path: A folder with `saved_model.pb`, or a file with an ending of `FORMATS`.
        trust: Whether code in the file may run.
        work: An empty folder.
        shapes: See `onnx_file.load`.
        progress: Told each step.

    Raises:
        UsageError: There is code in it, and the user hasn't said that it may run.
        MissingExtraError: TensorFlow or tf2onnx isn't installed.
        ImportMismatchError: The graph gives something else than the framework.
        SourceError: It can't be read or exported.
    """
    path = path.parent if path.name == GRAPH else path
    if not path.exists():
        raise NotAModelError(str(path), "there is no such file")
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            path.name,
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            "Install what it takes: pip install 'onnxsite[tensorflow]'.",
        )
    kind = FORMATS.get(path.suffix, "saved model") if path.is_file() else "saved model"
    if kind == "keras" and not trust:
        keras_code.refuse(path)
    request = {"path": str(path.resolve()), "kind": kind, "trust": trust}
    report = process.run(EXPORTER, path.name, request, work, progress)
    proto = onnx_read.parse(path.name, (work / "model.onnx").read_bytes())
    model = onnx_file.from_proto(proto, Provenance(path.name, sha256=digest(path)), shapes=shapes)
    model.events[:0] = [Event(level, "import", message) for level, message in report["events"]]
    return model


def digest(path: Path) -> str:
    """The SHA-256 of a file, or of all files in a folder, in the order of their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    hashed = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        hashed.update(file.relative_to(path).as_posix().encode() + b"\0")
        hashed.update(file.read_bytes())
    return hashed.hexdigest()
