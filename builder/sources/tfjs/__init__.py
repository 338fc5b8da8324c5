"""Import models of TensorFlow.js: graphs of TensorFlow's operators, and Keras's layers.

Neither needs TensorFlow. Where it is installed, a graph is held against it all the same.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import SourceError
from builder.model import Event, Model, Provenance
from builder.sources import onnx_file, process
from builder.sources.tfjs import files, graph, layers

PROOF = "builder.sources.tfjs.proof"


def matches(path: Path) -> bool:
    """Whether a path is the JSON of such a model, or a folder with one."""
    return files.find(path) is not None


def load(
    path: Path,
    *,
    fetched: Mapping[str, Path],
    work: Path,
    shapes: onnx_file.Shapes,
    progress: Callable[[str], None],
) -> Model:
    """Write a model with standard operators.

    Args:
        path: The JSON, or a folder with it.
        fetched: Files of the recipe by name, among which shards may be.
        work: An empty folder.
        shapes: See `onnx_file.load`.
        progress: Told each step.

    Raises:
        SourceError: It isn't whole, or holds what can't be written; the message names it.
        ImportMismatchError: TensorFlow is installed, and gives something else.
    """
    file = files.find(path) or path
    try:
        content = files.read(file, fetched)
        kind = graph if content.is_graph else layers
        proto = kind.convert(content, file.stem)
    except SourceError as error:
        raise type(error)(f"{path.name}, {error.what}", error.why, error.remedy) from error
    count = len(proto.graph.node)
    model = onnx_file.from_proto(proto, Provenance(path.name, sha256=content.sha256), shapes=shapes)
    what = "operators" if content.is_graph else "layers"
    model.event("info", "import", f"{what} of TensorFlow.js became {count} standard operators")
    if content.is_graph and importlib.util.find_spec("tensorflow") is not None:
        (work / "model.onnx").write_bytes(proto.SerializeToString())
        paths = {name: str(other.resolve()) for name, other in fetched.items()}
        request = {"path": str(file.resolve()), "files": paths}
        report = process.run(PROOF, path.name, request, work, progress)
        model.events += [Event(level, "import", message) for level, message in report["events"]]
    else:
        model.event("info", "import", "not compared with TensorFlow, which runs no such model here")
    return model
