"""Import a PyTorch model from a function that makes it, in a process of its own.

The function returns `(module, inputs)`: an `nn.Module` and example inputs, a dict by name or a
tuple in the order of `forward`; or a `builder.sources.TorchExport`, which can name outputs and free
axes too; or `TorchParts` of those. If it has parameters named like the recipe's files, it gets
their paths:

    def factory(weights: Path):
        model = Net()
        model.load_state_dict(torch.load(weights, weights_only=True))
        return model, {"image": torch.zeros(1, 3, 224, 224)}
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import MissingExtraError
from builder.generation import Generation, Parts, wired
from builder.model import Event, Provenance
from builder.sources import onnx_file, onnx_read, process

FORM = re.compile(r"(?:[A-Za-z_][\w.]*|[^:]+\.py|[A-Za-z]:[^:]+\.py):[A-Za-z_]\w*")

EXPORTER = "builder.sources.torch_export"


def matches(source: str) -> bool:
    """Whether a source has the form `package.module:factory` or `file.py:factory`."""
    return FORM.fullmatch(source) is not None


def load(
    source: str,
    *,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    shapes: onnx_file.Shapes,
    progress: Callable[[str], None],
    name: str = "",
    arguments: Mapping[str, object] | None = None,
) -> Parts:
    """Export what a factory makes, compared with PyTorch on seeded inputs of several shapes.

    Args:
        source: `package.module:factory`, found from the current folder and `base` too, or
            `file.py:factory`.
        base: The folder that a relative file starts from.
        files: Files of the recipe by name.
        work: An empty folder.
        shapes: See `onnx_file.load`.
        progress: Told each step.
        name: What the source is called in messages; the file or function itself if left out.
        arguments: What else a factory of our own gets, as JSON can hold it.

    Raises:
        MissingExtraError: PyTorch isn't installed.
        ImportMismatchError: An exporter's graph differs from PyTorch, and none does better.
        SourceError: The factory fails, no exporter manages, or the process dies.
    """
    name = name or Path(source).name  # no folder of this machine
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            name, "PyTorch isn't installed", "Install it: pip install 'onnxsite[torch]'."
        )
    paths = {key: str(path.resolve()) for key, path in files.items()}
    request = {
        "source": source,
        "base": str(base.resolve()),
        "files": paths,
        "arguments": dict(arguments or {}),
    }
    report = process.run(EXPORTER, name, request, work, progress)
    models = {}
    for part, events in report["events"].items():
        proto = onnx_read.parse(name, (work / f"{part}.onnx").read_bytes())
        models[part] = onnx_file.from_proto(proto, Provenance(name), shapes=shapes)
        models[part].events[:0] = [Event(level, "export", message) for level, message in events]
    said = report["generation"]
    return Parts(wired(models), None if said is None else Generation.read(said))
