"""Export a model of TensorFlow to ONNX. Runs in a process of its own: see `tensorflow`.

`model.onnx` lies beside the request then (see `process`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from builder.errors import ImportMismatchError, SourceError
from builder.inputs import INTEGERS, random_inputs
from builder.model import Signature, Tensors, TensorSpec
from builder.session import Session
from builder.sources import axes, ends, process, tensorflow_gaps
from builder.sources.agreement import TOLERANCES, Tolerances, difference

if TYPE_CHECKING:
    from builder.sources.tensorflow_models import Subject

SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # which sums in an order of its own
}

SEEDS = (0, 1)
"""Of the inputs that are compared, at every extent."""

BATCHES = (1, 3)
"""Extents of a free first axis that are compared; other free axes are doubled once."""

EXTENTS = (32, 64, 128, 256)
"""Of other free axes: the first one that the model takes."""

EDGES = (0.0, 1.0, -1.0, 100.0)
"""Values that whole inputs are filled with besides random ones."""

SHAKE = 1e-6
"""How far an input of one value is moved, to see whether the framework's result stays."""

LOOSE = ", to 5 % of the largest value: it rounds to 8 bits where the graph doesn't"

UNSTEADY = "{} inputs of one value aren't compared: {} gives others after the slightest change"

IN_BYTES: Tolerances = {
    **dict.fromkeys(("float16", "float32"), (0.0, 0.05)),
    **dict.fromkeys(("int8", "uint8", "int16"), (0.0, 0.03)),
}
"""For what computes in 8 bits: TensorFlow Lite rounds between its operators, where the graph has
floating-point numbers."""


def export(asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Do what the request says."""
    process.say("start TensorFlow")
    os.environ |= SETTINGS
    from builder.sources import tensorflow_models

    process.say("read the model")
    read = tensorflow_models.READERS[asked["kind"]]

    def load() -> Subject:
        return read(Path(asked["path"]), trust=asked["trust"])

    subject = process.attempt("model", "it can't be read", load)
    process.say("export it with tf2onnx")
    proto = process.attempt("model", "tf2onnx can't export it", subject.write)
    shapes = axes.named({name: shape for name, (_, shape) in subject.inputs.items()})
    ends.rename(proto, list(shapes), list(subject.outputs))
    tensorflow_gaps.mend(proto, tensorflow_models.OPSET)
    process.say(f"compare with {subject.framework}")
    signature = Signature(
        tuple(TensorSpec(n, subject.inputs[n][0], tuple(shape)) for n, shape in shapes.items()), ()
    )
    notes, followed = compare(subject, signature, proto)
    ends.reshape(proto, shapes, followed)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return {"events": [("info", note) for note in (*subject.notes, *notes)]}


def compare(
    subject: Subject, signature: Signature, proto: onnx.ModelProto
) -> tuple[list[str], dict[str, list[int | str | None]]]:
    """Hold the graph against the framework on inputs of several extents and values.

    Returns:
        What was compared, in sentences, and the outputs' shapes with the names of free axes.

    Raises:
        ImportMismatchError: An output differs.
    """
    session = Session(proto.SerializeToString())  # before the framework runs anything
    tolerances = IN_BYTES if subject.bytes else TOLERANCES
    extents, integers, known = _answers(subject, signature)
    unsteady = 0
    for index, (feeds, expected) in enumerate(known):
        fault = difference(expected, session.run(feeds), subject.framework, tolerances)
        if not fault:
            continue
        again = subject.run(_shaken(feeds)) if index >= len(known) - len(EDGES) else expected
        if not difference(expected, again, subject.framework, tolerances):
            raise ImportMismatchError(
                "the graph", fault, "Export it with tf2onnx yourself, and give the .onnx file."
            )
        unsteady += 1
    said = f"{subject.framework}: the graph gives what it does on {len(known) - unsteady} inputs"
    said += LOOSE if subject.bytes else ""
    notes = [said, *([UNSTEADY.format(unsteady, subject.framework)] if unsteady else [])]
    return notes, _follow(subject, signature, extents, integers)


def samples(signature: Signature, extents: Mapping[str, int], integers: int) -> Iterator[Tensors]:
    """Random inputs at every extent, and at the end those of one value (`EDGES`)."""
    sizes = [{**extents, "batch": n} for n in BATCHES if "batch" in extents] or [dict(extents)]
    sizes += [{**extents, name: 2 * n} for name, n in extents.items() if name != "batch"]
    for size in sizes:
        for seed in SEEDS:
            yield draw(signature, size, integers, seed)
    for value in EDGES:
        like = draw(signature, extents, integers, SEEDS[0])
        yield {n: _filled(array, value, integers) for n, array in like.items()}


def draw(signature: Signature, extents: Mapping[str, int], integers: int, seed: int) -> Tensors:
    """Random inputs; bytes are of the whole range, other integers small."""
    found = random_inputs(signature, seed=seed, dims=extents, integers=integers)
    rng = np.random.default_rng(seed)
    for name, array in found.items():
        if array.dtype.itemsize == 1 and array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype.name)
            drawn = rng.integers(limits.min, limits.max, array.shape, endpoint=True)
            found[name] = drawn.astype(array.dtype)
    return found


def _shaken(feeds: Tensors) -> Tensors:
    """The same inputs but for what rounding could do to them."""
    rng = np.random.default_rng(0)
    made: Tensors = {}
    for name, array in feeds.items():
        if array.dtype.kind != "f":
            made[name] = array
            continue
        wide = array.astype(np.float64)
        size = SHAKE * max(float(np.abs(wide).max(initial=0)), 1.0)
        made[name] = (wide + size * rng.standard_normal(array.shape)).astype(array.dtype)
    return made


def _filled(array: Any, value: float, integers: int) -> Any:
    if array.dtype.kind == "f":
        return np.full_like(array, value)
    return np.full_like(array, np.clip(value, 0, 1 if array.dtype.kind == "b" else integers - 1))


def _answers(
    subject: Subject, signature: Signature
) -> tuple[dict[str, int], int, list[tuple[Tensors, Tensors]]]:
    """Extents of free axes and a limit of integers that the framework takes, and what it gives.

    Raises:
        SourceError: It takes none.
    """
    free = {dim for spec in signature.inputs for dim in spec.shape if isinstance(dim, str)}
    fault: Exception | None = None
    for integers in (INTEGERS, 2, 1):
        for extent in EXTENTS if free - {"batch"} else EXTENTS[:1]:
            extents = {name: 1 if name == "batch" else extent for name in sorted(free)}
            given = list(samples(signature, extents, integers))
            try:
                return extents, integers, [(feeds, subject.run(feeds)) for feeds in given]
            except Exception as error:  # whatever a framework raises
                fault = fault or error
    raise SourceError(
        "the model",
        f"{subject.framework} fails on random inputs ({process.first_line(fault or Exception())})",
        "Save the model with inputs of a fixed shape.",
    )


def _follow(
    subject: Subject, signature: Signature, extents: Mapping[str, int], integers: int
) -> dict[str, list[int | str | None]]:
    """Shapes of the outputs: an axis that is always as long as a free input axis has its name.

    Any other one that changes is None.
    """
    small = subject.run(draw(signature, {**extents, **_ones(extents)}, integers, SEEDS[0]))
    found: dict[str, list[int | str | None]] = {n: list(a.shape) for n, a in small.items()}
    for name, extent in {**extents, **_ones(extents)}.items():
        wide = {**extents, **_ones(extents), name: 2 * extent}
        large = subject.run(draw(signature, wide, integers, SEEDS[0]))
        for key, array in large.items():
            for axis, (old, new) in enumerate(zip(small[key].shape, array.shape, strict=True)):
                if old != new:
                    same = (old, new) == (extent, 2 * extent) and found[key][axis] == old
                    found[key][axis] = name if same else None
    return found


def _ones(extents: Mapping[str, int]) -> dict[str, int]:
    """A batch of two where it is free: an axis of one is nobody's."""
    return {"batch": 2} if "batch" in extents else {}


if __name__ == "__main__":
    process.answer(Path(sys.argv[1]), export)
