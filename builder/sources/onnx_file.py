"""Import an ONNX file: completed, checked for the web runtime, compared with the original."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from builder.errors import (
    ImportMismatchError,
    NotAModelError,
    SourceError,
    UnsupportedError,
    UsageError,
)
from builder.inputs import random_inputs
from builder.model import Array, Model, Provenance, Signature, Tensors, TensorSpec
from builder.session import Session
from builder.snr import snr_of
from builder.sources import onnx_ml, onnx_read
from builder.webruntime import support

Shapes = Mapping[str, Sequence[int | str]]
"""Shapes by the names of inputs and outputs; a string is a symbolic dimension."""

SEEDS = (0, 1)
"""Of the inputs on which the imported graph is compared with the original."""

SAME_SNR = 80.0
"""dB that floating-point outputs must reach then: 1 part in 10,000; other types must be equal."""


def load(path: Path, *, shapes: Shapes) -> Model:
    """Read, check and complete a model.

    Args:
        path: The .onnx file; external data lie in its folder or below.
        shapes: Corrections of shapes that the file declares falsely. All that was inferred from
            the false ones is dropped and inferred again.

    Raises:
        NotAModelError: Not an ONNX model, or a truncated one.
        ExternalDataError: A weight file is missing, short, or outside the model's folder.
        UnsupportedError: The web runtime can't run it; the message names the node.
        UsageError: `shapes` names a value that isn't an input or output, or gives another rank.
        ImportMismatchError: What was made of the file gives other results than the file.
    """
    content = onnx_read.content(path)
    proto = onnx_read.parse(path.name, content)
    onnx_read.load_external(path, proto)
    provenance = Provenance(path.name, sha256=hashlib.sha256(content).hexdigest())
    return from_proto(proto, provenance, shapes=shapes)


def from_proto(proto: onnx.ModelProto, provenance: Provenance, *, shapes: Shapes) -> Model:
    """Make a model of a protobuf that is whole in memory; see `load` for what it raises."""
    try:
        onnx_read.check_weights(proto)
        negative = _free_negative(proto.graph)
        lowered = onnx_ml.lower(proto)
        model = Model(_to_ir(lowered.proto), Signature((), ()), provenance)
        if lowered.proto is not proto:
            model.event("info", "import", "operators of ai.onnx.ml became standard ones")
        if negative:
            said = f"negative sizes of {', '.join(negative)} are taken for free axes"
            model.event("info", "import", said)
        support.check(model.ir)
        feeds = _declared_inputs(model.ir.graph, shapes)
        session = onnx_ml.Original(proto, lowered)
        _correct_shapes(model, shapes)
        _infer_shapes(model.ir)
        feeds = (feeds or _inputs(model.ir.graph)).with_vocabularies(lowered.vocabularies)
        _measure_shapes(model, session, feeds)
        signature = Signature.of(model.ir.graph)
        model.signature = signature.with_vocabularies(lowered.vocabularies)
        _check_signature(model.signature)
        support.check(model.ir)  # again, now that types are known
        _prove(model, session, feeds)
    except SourceError as error:
        raise type(error)(f"{provenance.name}, {error.what}", error.why, error.remedy) from error
    return model


def _free_negative(graph: onnx.GraphProto) -> list[str]:
    """Make free axes of sizes below 0, as some converters write them; whose they were."""
    found = []
    for value in (*graph.input, *graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value < 0:
                dim.dim_param = f"{value.name}_{axis}"
                found.append(value.name)
    return list(dict.fromkeys(found))


def _to_ir(proto: onnx.ModelProto) -> ir.Model:
    _check_tensors(proto.graph)
    try:
        return ir.from_proto(proto)
    except Exception as error:  # onnx_ir raises whatever its parts raise
        raise NotAModelError(
            "graph", f"it can't be understood ({error})", "Run onnx.checker.check_model on it."
        ) from error


def _check_tensors(graph: onnx.GraphProto) -> None:
    """Inputs and outputs must be tensors; maps and their lists `onnx_ir` can't even hold."""
    for end in (*graph.input, *graph.output):
        kind = end.type.WhichOneof("value")
        if kind in (None, "tensor_type"):
            continue
        node = next((node for node in graph.node if end.name in node.output), None)
        raise UnsupportedError(
            f"value '{end.name}'" if node is None else f"node '{node.name}' ({node.op_type})",
            f"'{end.name}' is a {str(kind).removesuffix('_type')}, only tensors can be passed "
            "between the page and the model",
            support.REMEDIES.get("" if node is None else node.domain, ""),
        )


def _declared_inputs(graph: ir.Graph, shapes: Shapes) -> Signature | None:
    """What the file says of its inputs, which the file as it is can be run on; None if a recipe
    has to say it.
    """
    if any(v.shape is None and v.name in shapes for v in graph.inputs):
        return None
    return _inputs(graph)


def _inputs(graph: ir.Graph) -> Signature:
    """The inputs alone, outputs may be incomplete.

    Raises:
        UnsupportedError: The rank of an input is unknown.
    """
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    for value in inputs:
        if value.shape is None and value.dtype is not None:
            raise UnsupportedError(
                f"input '{value.name}'",
                "its rank is unknown, so no input can be made for it",
                f"State its shape in a recipe: shapes = {{ '{value.name}' = ['batch', 3] }}, say.",
            )
    return Signature(tuple(map(TensorSpec.of, inputs)), ())


def _correct_shapes(model: Model, shapes: Shapes) -> None:
    """Replace what the recipe calls false, and forget all shapes that came from it."""
    if not shapes:
        return
    graph = model.ir.graph
    ends = {value.name or "": value for value in (*graph.inputs, *graph.outputs)}
    for name, shape in shapes.items():
        what = f"shapes of '{model.provenance.name}'"
        if name not in ends:
            raise UsageError(
                what,
                f"'{name}' is neither input nor output",
                f"There are {', '.join(map(repr, ends))}.",
            )
        before = ends[name].shape
        if before is not None and len(before) != len(shape):
            raise UsageError(
                what,
                f"'{name}' has {len(before)} dimensions, {len(shape)} are given",
                f"The model declares {before}.",
            )
        ends[name].shape = ir.Shape(shape)
        model.event("info", "import", f"the shape of '{name}', {before}, is corrected to {shape}")
    for node in ir.traversal.RecursiveGraphIterator(graph):
        for value in node.outputs:
            if value.name not in shapes:
                value.shape = None


def _infer_shapes(model: ir.Model) -> None:
    """Complete missing types and shapes; what can't be inferred stays as it is."""
    ends = (*model.graph.inputs, *model.graph.outputs)
    if any(value.shape is None or value.dtype is None for value in ends):
        common.ShapeInferencePass(data_prop=True)(model)


def _measure_shapes(model: Model, session: onnx_ml.Original, feeds: Signature) -> None:
    """Find the rank of outputs that inference gives up on, by running the original once."""
    unknown = [v for v in model.ir.graph.outputs if v.shape is None and v.dtype is not None]
    if not unknown:
        return
    try:
        outputs = session.run(random_inputs(feeds, seed=SEEDS[0]))
    except UnsupportedError as error:
        raise UnsupportedError(
            f"output '{unknown[0].name}'",
            f"its rank is unknown, and the graph can't be run to find it ({error.why})",
            "State its shape in a recipe, or export the model with shapes.",
        ) from error
    for value in unknown:
        name = value.name or ""
        value.shape = ir.Shape([f"{name}_{axis}" for axis in range(np.ndim(outputs[name]))])
        model.event("info", "import", f"the rank of '{name}' isn't declared: a run gave it")


def _check_signature(signature: Signature) -> None:
    for spec in (*signature.inputs, *signature.outputs):
        if 0 in spec.shape:
            raise UnsupportedError(
                f"value '{spec.name}'",
                f"its shape {list(spec.shape)} holds no element",
                "Export the model with example inputs that aren't empty.",
            )


def _prove(model: Model, session: onnx_ml.Original, signature: Signature) -> None:
    """The imported graph must give what the file gives, for the same inputs.

    Not to the last bit: with a corrected shape onnxruntime fuses other nodes, and sums in another
    order.

    A graph that can't be run on random inputs (indices out of range and the like) is judged later,
    on the task's own inputs; that is said in an event.

    Raises:
        ImportMismatchError: An output differs.
    """
    imported = Session(model.ir)
    for seed in SEEDS:
        inputs = random_inputs(signature, seed=seed)
        try:
            expected: Tensors = session.run(inputs)
        except UnsupportedError as error:
            model.event("info", "import", f"not compared on random inputs: {error.why}")
            return
        got = imported.run(inputs)
        again: Tensors | None = None
        for name, array in expected.items():
            if _same(array, got[name]):
                continue
            again = session.run(inputs) if again is None else again
            if _same(array, again[name]):  # else it's drawn at random in every run
                raise ImportMismatchError(f"output '{name}'", "it changed when it was imported")


def _same(left: Array, right: Array) -> bool:
    return snr_of(left, right) >= SAME_SNR
