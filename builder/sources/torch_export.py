"""Export a PyTorch module to ONNX. Runs in a process of its own: see `torch_factory`.

`PART.onnx` lies beside the request then (see `process`), for each part of the model.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from builder.errors import ImportMismatchError, OnnxsiteError, SourceError
from builder.model import WHOLE
from builder.session import Session
from builder.sources import process
from builder.sources.agreement import difference
from builder.sources.torch_module import Tensors, Traced, evaluate
from builder.sources.torch_spec import TorchExport, TorchParts

OPSET = 18
"""Lowest opset that PyTorch's graph-capturing exporter writes without converting afterwards."""

SEEDS = (0, 1)
"""Of the inputs that are compared, at every extent."""

Rung = Callable[[Traced, Path], None]


def by_capture(traced: Traced, path: Path) -> None:
    """The first rung: PyTorch's graph capture, with free axes."""
    dims = {
        name: torch.export.Dim(name, **traced.range_of(name))
        for axes in traced.axes.values()
        for name in axes.values()
    }
    shapes = tuple(
        {axis: dims[name] for axis, name in traced.axes.get(key, {}).items()}
        for key in traced.inputs
    )
    torch.onnx.export(
        traced.flat,
        tuple(traced.inputs.values()),
        path,
        input_names=list(traced.inputs),
        output_names=traced.outputs,
        opset_version=OPSET,
        dynamo=True,
        dynamic_shapes=(shapes,) if traced.axes else None,  # all are in one *args
        external_data=False,
        verbose=False,
    )


def by_tracing(traced: Traced, path: Path) -> None:
    """The second rung: TorchScript tracing, with free axes."""
    _trace(traced, path, {**traced.axes, **traced.output_axes})


def by_fixed_tracing(traced: Traced, path: Path) -> None:
    """The last rung: tracing with the example's shapes."""
    _trace(traced, path, {})


def _trace(traced: Traced, path: Path, axes: Mapping[str, Mapping[int, str]]) -> None:
    module: torch.nn.Module = traced.flat
    if any(isinstance(child, torch.jit.ScriptModule) for child in module.modules()):
        # The exporter's own tracing can't enter it; with a script around it there's nothing to.
        module = torch.jit.trace(module, tuple(traced.inputs.values()), check_trace=False)  # type: ignore[no-untyped-call]
    torch.onnx.export(
        module,
        tuple(traced.inputs.values()),
        path,
        input_names=list(traced.inputs),
        output_names=traced.outputs,
        opset_version=OPSET,
        dynamo=False,
        dynamic_axes=axes or None,
    )


LADDER: Mapping[str, Rung] = {
    "graph capture": by_capture,
    "tracing": by_tracing,
    "tracing with fixed shapes": by_fixed_tracing,
}


def resolve(source: str, base: Path) -> Callable[..., Any]:
    """Import `package.module:factory` or `file.py:factory`, from `base` too."""
    place, _, name = source.rpartition(":")
    sys.path.insert(0, str(base))
    if place.endswith(".py"):
        path = base / place
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path.name} can't be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    factory = getattr(module, name)
    if not callable(factory):
        raise TypeError(f"{name} isn't a function")
    return factory  # type: ignore[no-any-return]


def make(
    factory: Callable[..., Any],
    files: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
) -> TorchParts:
    """Call a factory with the files that it has parameters for, and read what it returns."""
    torch.manual_seed(0)  # weights that nobody loads are the same in every build
    wanted = inspect.signature(factory).parameters
    given = {name: Path(path) for name, path in files.items() if name in wanted}
    result = factory(**given, **(arguments or {}))
    if isinstance(result, tuple) and len(result) == 2:
        result = TorchExport(*result)
    if isinstance(result, TorchExport):
        result = TorchParts({WHOLE: result})
    if not isinstance(result, TorchParts):
        raise TypeError(
            f"it returned a {type(result).__name__}, not (module, inputs), a TorchExport or"
            " TorchParts"
        )
    for spec in result.parts.values():
        if not isinstance(spec.module, torch.nn.Module):
            raise TypeError(f"its module is a {type(spec.module).__name__}, not an nn.Module")
    return result


def climb(traced: Traced, path: Path) -> list[tuple[str, str]]:
    """Try rung after rung until one gives a graph that agrees with PyTorch.

    Returns:
        Level and message of what happened, for events.

    Raises:
        ImportMismatchError: Every rung failed, and at least one gave a graph that differs.
        SourceError: Every rung failed.
    """
    events: list[tuple[str, str]] = []
    differs = False
    for name, rung in LADDER.items():
        if rung is by_fixed_tracing and not traced.axes:
            continue  # tracing was with fixed shapes already
        process.say(f"export by {name}")
        try:
            evaluate(traced.flat)
            rung(traced, path)
        except Exception as error:
            traceback.print_exc()
            events.append(("warning", f"{name} failed ({process.first_line(error)})"))
            continue
        process.say("compare with PyTorch")
        evaluate(traced.flat)  # exporters switch modes and switch back
        fault = compare(traced, path, fixed=rung is by_fixed_tracing)
        if not fault:
            return [*events, ("info", f"exported by {name}, opset {OPSET}")]
        differs = True
        events.append(("warning", f"{name} gave a wrong graph ({fault})"))
    kind = ImportMismatchError if differs else SourceError
    raise kind(
        "export",
        "; ".join(message for _, message in events),
        "Export it to .onnx yourself, and give that file.",
    )


def compare(traced: Traced, path: Path, *, fixed: bool) -> str:
    """Hold a graph against the module on the CPU: what differs, or nothing."""
    try:
        session = Session(path.read_bytes())
        for inputs in [traced.inputs] if fixed else traced.samples(SEEDS):
            expected = _expected(traced, inputs)
            if expected is None:
                continue
            feeds = {name: tensor.numpy() for name, tensor in inputs.items()}
            wanted = {name: tensor.numpy() for name, tensor in expected.items()}
            fault = difference(wanted, session.run(feeds), "PyTorch")
            if fault:
                return fault
    except OnnxsiteError as error:
        return error.why
    return ""


def _expected(traced: Traced, inputs: Tensors) -> Tensors | None:
    """What PyTorch gives; None where it can't run random inputs either."""
    try:
        return traced.run(inputs, traced.outputs)
    except Exception as error:
        if inputs is traced.inputs:
            raise
        why = process.first_line(error)
        note = f"not compared on some random inputs: PyTorch fails on them ({why})"
        if note not in traced.notes:
            traced.notes.append(note)
        return None


def export(asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Do what the request says."""
    process.say("make the module")
    made, parts = _make(asked["source"], asked)
    report: dict[str, Any] = {"events": {}, "generation": None}
    if made.generation is not None:
        report["generation"] = asdict(made.generation)
    for name, traced in parts.items():
        events = climb(traced, folder / f"{name}.onnx")
        report["events"][name] = [*(("info", note) for note in traced.notes), *events]
    return report


def _make(source: str, asked: Mapping[str, Any]) -> tuple[TorchParts, dict[str, Traced]]:
    try:
        made = make(resolve(source, Path(asked["base"])), asked["files"], asked.get("arguments"))
        return made, {name: Traced(spec) for name, spec in made.parts.items()}
    except OnnxsiteError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise SourceError(
            "factory",
            f"it fails with {process.first_line(error)}",
            "Build with -v to see the traceback.",
        ) from error


if __name__ == "__main__":
    process.answer(Path(sys.argv[1]), export)
