"""Weight-only int8: weights stored in 8 bits for each output channel, computed in fp32.

Each large weight becomes an int8 tensor, a scale for each output channel, and one
`DequantizeLinear`; the runtime undoes it while it makes the session. No zero points: the int8 grid
is symmetric, and WebGPU refuses some of them. Activations and biases aren't quantized, so it works
on both backends, and one outlier row can't spoil the others (as with per-tensor dynamic int8).
What rounding shifts on average is corrected in the biases, which stay fp32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.errors import ConversionError
from builder.model import Array, Event, Reference
from builder.passes.base import constant, is_edge
from builder.passes.clean import RemoveUnused
from builder.precision.correction import CHANNEL, Means, correct, measure_means
from builder.precision.rounding import from_int8, to_half, to_int8

INT8_ELEMENTS = 30_000
"""Weights from this size on are stored as int8, smaller ones as fp16. EfficientNet-Lite0, measured
(limit: size, top-1 agreement on 200 crops): 60,000: 5.29 MB, 99.5 %; 30,000: 5.05 MB, 98.5 %;
8,000: 4.87 MB, 98.0 %. Small weights are the depthwise and the first ones: few bytes, and much of
the error."""

FP16_ELEMENTS = 256
"""Weights below this stay fp32: the extra node costs as much as it saves. So do those of one axis,
biases and scales: few bytes, and errors in them shift everything."""

OPSET = 13
"""Per-axis `DequantizeLinear` came with it."""

HALF_NORMAL, HALF_MAX = 2.0**-14, 65504.0
"""fp16 storage is for weights whose largest magnitude is within its normal numbers."""


@dataclass(frozen=True)
class Quantized:
    """The converted graph, and events that sum up what is stored how."""

    ir: ir.Model
    events: tuple[Event, ...]


def convert(model: ir.Model, references: Sequence[Reference]) -> Quantized:
    """Store the weights of a copy of an fp32 graph in fewer bits.

    A weight is quantized once, whoever reads it. Names of nodes and signature stay.

    Args:
        model: In normal form; unchanged.
        references: To calibrate biases on; see `builder.precision.correction`.

    Raises:
        ConversionError: The graph's opset is below 13.
        UnsupportedError: The graph can't be run.
    """
    if model.opset_imports.get("", 0) < OPSET:
        raise ConversionError(
            "graph",
            f"its opset {model.opset_imports.get('')} has no per-channel DequantizeLinear "
            f"(opset {OPSET} has)",
            f"Export the model with opset {OPSET} or newer.",
        )
    means = measure_means(model, references)
    copy = model.clone()
    counts: Counter[str] = Counter()
    for graph in tuple(copy.graphs()):
        for value in tuple(graph.initializers.values()):
            tensor = constant(value)
            if tensor is not None and tensor.dtype == ir.DataType.FLOAT and not is_edge(value):
                counts[_store(value, tensor.numpy(), graph, means)] += 1
    parts = ", ".join(f"{count} weights {how}" for how, count in sorted(counts.items()) if how)
    RemoveUnused()(copy)
    return Quantized(copy, (Event("info", "int8", f"stored: {parts or 'nothing'}"),))


def _store(value: ir.Value, array: npt.NDArray[np.float32], graph: ir.Graph, means: Means) -> str:
    """Replace one weight; how it is stored now, in words."""
    if array.size < FP16_ELEMENTS or array.ndim < 2:
        return ""
    if not np.isfinite(array).all():
        return "in fp32 (not finite)"
    axis = _channel_axis(value) if array.size >= INT8_ELEMENTS else None
    if axis is not None:
        levels, scale = to_int8(array, axis)
        if np.all(scale >= np.finfo(np.float32).tiny):
            _correct(value, array - from_int8(levels, scale, axis), graph, means)
            inputs = [_weight(graph, value, "int8", levels), _weight(graph, value, "scale", scale)]
            node = ir.node("DequantizeLinear", inputs, {"axis": axis}, num_outputs=1)
            _replace(value, node, graph)
            return "in int8 for each output channel"
    peak = float(np.max(np.abs(array)))
    if not HALF_NORMAL <= peak <= HALF_MAX:
        return "in fp32 (beyond fp16's range)"
    half = to_half(array, taps=has_taps(value))
    _correct(value, array - half.astype(np.float32), graph, means)
    node = ir.node(
        "Cast",
        [_weight(graph, value, "half", half)],
        {"to": int(ir.DataType.FLOAT)},
        num_outputs=1,
    )
    _replace(value, node, graph)
    return "in fp16"


def has_taps(value: ir.Value) -> bool:
    """Whether a weight is a filter of convolutions with more than one tap."""
    shape = value.shape.numpy() if value.shape is not None else ()
    return bool(np.prod(shape[2:]) > 1) and all(
        node.op_type == "Conv" and index == 1 for node, index in value.uses()
    )


def _correct(value: ir.Value, lost: npt.NDArray[np.float32], graph: ir.Graph, means: Means) -> None:
    for node, index in tuple(value.uses()):
        if index == 1 and node.op_type in CHANNEL and node.graph is graph and node.domain == "":
            correct(node, lost, means, graph)


def _weight(graph: ir.Graph, value: ir.Value, suffix: str, array: Array) -> ir.Value:
    name = f"{value.name}_{suffix}"
    while name in graph.initializers:
        name += "_"
    tensor = ir.tensor(array, name=name)
    weight = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape))
    weight.const_value = tensor
    graph.register_initializer(weight)
    return weight


def _replace(value: ir.Value, node: ir.Node, graph: ir.Graph) -> None:
    """Let the node's output take the weight's name and readers."""
    name = value.name or ""
    node.name = f"{name}_{node.op_type}"
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    del graph.initializers[name]
    value.replace_all_uses_with(node.outputs[0])
    node.outputs[0].name = name
    graph.insert_before(graph[0], node)


def _channel_axis(value: ir.Value) -> int | None:
    """The axis of output channels, by the first reader that has one; None if none has."""
    rank = len(value.shape) if value.shape is not None else 0
    for node, index in value.uses():
        rule = CHANNEL_AXIS.get((node.op_type, index)) if node.domain == "" else None
        axis = rule(node, rank) if rule is not None and rank >= 2 else None
        if axis is not None:
            return axis % rank
    return None


def _gemm(node: ir.Node, _rank: int) -> int:
    return 0 if node.attributes.get_int("transB", 0) else 1


def _gather(node: ir.Node, _rank: int) -> int | None:
    """Rows of a table; a gather along another axis picks elements, not rows."""
    return 0 if node.attributes.get_int("axis", 0) == 0 else None


def _transpose(node: ir.Node, rank: int) -> int | None:
    """A tied table that is turned before a product: the axis that becomes the product's last."""
    perm = list(node.attributes.get_ints("perm", tuple(reversed(range(rank)))))
    feeds = {(user.op_type, index) for user, index in node.outputs[0].uses()}
    return perm[-1] if ("MatMul", 1) in feeds else None


CHANNEL_AXIS: dict[tuple[str, int], Callable[[ir.Node, int], int | None]] = {
    ("Conv", 1): lambda _node, _rank: 0,
    ("ConvTranspose", 1): lambda _node, _rank: 1,
    ("MatMul", 0): lambda _node, _rank: -2,
    ("MatMul", 1): lambda _node, _rank: -1,
    ("Gemm", 1): _gemm,
    ("Gather", 0): _gather,
    ("Transpose", 0): _transpose,
    ("LSTM", 1): lambda _node, _rank: 1,
    ("LSTM", 2): lambda _node, _rank: 1,
    ("GRU", 1): lambda _node, _rank: 1,
    ("GRU", 2): lambda _node, _rank: 1,
    ("RNN", 1): lambda _node, _rank: 1,
    ("RNN", 2): lambda _node, _rank: 1,
}
"""Axis of output channels by operator and position of the weight among its inputs. A weight of
[directions, gates, inputs] has one scale for each gate row, shared by the directions."""
