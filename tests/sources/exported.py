"""What a factory returns, exported and compared as the importer does it, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builder.generation import Parts, wired
from builder.model import Provenance
from builder.sources import TorchExport, TorchParts, onnx_file, onnx_read, torch_export
from builder.sources.torch_module import Traced


def exported(made: TorchExport | TorchParts, folder: Path) -> Parts:
    """The parts of a model, each by the first rung that gives what PyTorch gives.

    Raises:
        OnnxsiteError: No rung does.
    """
    parts = made if isinstance(made, TorchParts) else TorchParts({"model": made})
    models: dict[str, Any] = {}
    for name, spec in parts.parts.items():
        path = folder / f"{name}.onnx"
        events = torch_export.climb(Traced(spec), path)
        proto = onnx_read.parse(name, path.read_bytes())
        models[name] = onnx_file.from_proto(proto, Provenance(name), shapes={})
        for level, message in events:
            models[name].event(level, "export", message)
    return Parts(wired(models), parts.generation)
