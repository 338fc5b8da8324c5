"""int8: weights in 8 bits, computed in fp32, or in 8 bits where WASM is faster that way.

Products with activations and 1x1 convolutions are smoothed, rounded with compensation and stored as
uint8 (`builder.precision.products`, `builder.precision.pointwise`). Every other large weight
becomes a uint8 tensor and a scale for each output channel; the runtime undoes it while it makes the
session, but for tables, whose rows are looked up in 8 bits. Smaller weights are fp16. What rounding
shifts on average is corrected in the biases, which stay fp32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.model import Event
from builder.passes.base import constant
from builder.passes.clean import RemoveUnused
from builder.precision import pointwise, products
from builder.precision.activations import Activations
from builder.precision.correction import correct, correct_readers
from builder.precision.rounding import ZERO, fits, from_int8, to_half, to_int8, to_unsigned
from builder.precision.storage import DOMAIN, float_weights, replace, take_over, weight
from builder.precision.tables import is_lookup, look_up

INT8_ELEMENTS = 30_000
"""Weights from this size on are stored as int8, smaller ones as fp16. EfficientNet-Lite0, measured
(limit: size, top-1 agreement on 200 crops): 60,000: 5.29 MB, 99.5 %; 30,000: 5.05 MB, 98.5 %;
8,000: 4.87 MB, 98.0 %. Small weights are the depthwise and the first ones: few bytes, and much of
the error."""

FP16_ELEMENTS = 256
"""Weights below this stay fp32: the extra node costs as much as it saves. So do those of one axis,
biases and scales: few bytes, and errors in them shift everything."""

OPSET_PRODUCTS = 11
"""ScatterND came with it, which puts rows kept apart back into a weight."""

HALF_NORMAL, HALF_MAX = 2.0**-14, 65504.0
"""fp16 storage is for weights whose largest magnitude is within its normal numbers."""


@dataclass(frozen=True)
class Quantized:
    """A converted graph.

    Attributes:
        ir: The graph.
        layers: Weights that were rounded, by name: what a retreat may keep wider.
        multiplied: Whether products are computed in 8 bits.
        events: How weights are stored, in sentences.
    """

    ir: ir.Model
    layers: tuple[str, ...]
    multiplied: bool
    events: tuple[Event, ...]


def convert(
    model: ir.Model,
    activations: Activations,
    plan: products.Plan,
    *,
    multiplied: frozenset[str] = frozenset(),
    wider: frozenset[str] = frozenset(),
) -> Quantized:
    """Store the weights of a copy of an fp32 graph in fewer bits.

    A weight is rounded once, whoever reads it. Names of nodes and signature stay.

    Args:
        model: In normal form; unchanged.
        activations: Statistics of it, to correct biases by.
        plan: How its products are rounded, by `builder.precision.products.plan`.
        multiplied: Names of weights of the plan whose products are computed in 8 bits, for WASM;
            the others are stored in the same bytes and computed in fp32.
        wider: Names of weights that are stored in fp16 instead.
    """
    copy = model.clone()
    stored = store(copy, activations, plan, multiplied=multiplied, wider=wider)
    RemoveUnused()(copy)
    return stored


def store(
    model: ir.Model,
    activations: Activations,
    plan: products.Plan,
    *,
    multiplied: frozenset[str] = frozenset(),
    wider: frozenset[str] = frozenset(),
) -> Quantized:
    """Convert in place; see `convert`."""
    weights = [(graph, value) for graph in model.graphs() for value in float_weights(graph)]
    opset = model.opset_imports.get("", 1)
    layers = []
    if opset >= OPSET_PRODUCTS:
        layers = _products(model, activations, plan, multiplied, wider)
    smoothed = len(layers)
    count = len(multiplied.intersection(layers))
    counts: Counter[str] = Counter()
    done = set(layers)
    for graph, value in weights:
        name = value.name or ""
        if name in done:
            continue
        how = _store(value, graph, activations, narrow=name not in wider)
        counts[how] += 1
        if how == INT8:
            layers.append(name)
    counts["in 8 bits, smoothed and compensated"] = smoothed
    model.graph.sort()
    parts = ", ".join(f"{n} weights {how}" for how, n in sorted(counts.items()) if how and n)
    events = [event("int8", f"stored: {parts or 'nothing'}")]
    if count:
        events.append(event("int8", f"{count} products computed in 8 bits on WASM"))
    return Quantized(model, tuple(layers), count > 0, tuple(events))


def event(step: str, message: str) -> Event:
    """Something that was done, for information."""
    return Event("info", step, message)


INT8 = "in int8 for each output channel"


def _products(
    model: ir.Model,
    activations: Activations,
    plan: products.Plan,
    multiplied: frozenset[str],
    wider: frozenset[str],
) -> list[str]:
    """Rewrite the products and 1x1 convolutions of the plan; the names of their weights."""
    graph = model.graph
    multiplier = products.Multiplier(graph, model.opset_imports.get("", 1))
    done = []
    # One after the other: a product that is rewritten may give what the next one reads.
    for kind in (products, pointwise):
        for product in kind.find(graph, 0):
            name, source = product.value.name or "", product.activation.name or ""
            if name not in plan.rounded or name in wider:
                continue
            smooth, rounded = plan.smoothing[source], plan.rounded[name]
            if kind is pointwise:
                lost = (product.matrix - rounded.dense(smooth)).T[..., None, None]
                correct(product.node, lost, activations, graph)
            if name not in multiplied:
                kind.store(product, rounded, smooth, graph)
            elif kind is pointwise:
                pointwise.multiply(product, rounded, smooth, plan.grids[source], graph)
            else:
                multiplier.multiply(product, rounded, smooth)
            done.append(name)
    if multiplied.intersection(done):
        model.opset_imports[DOMAIN] = 1
        products.hasten(graph)
    return done


def _store(value: ir.Value, graph: ir.Graph, activations: Activations, *, narrow: bool) -> str:
    """Replace one weight; how it is stored now, in words."""
    tensor = constant(value)
    array = np.asarray(tensor.numpy() if tensor is not None else (), np.float32)
    if array.size < FP16_ELEMENTS or array.ndim < 2:
        return ""
    if not np.isfinite(array).all():
        return "in fp32 (not finite)"
    axis = channel_axis(value) if narrow and array.size >= INT8_ELEMENTS else None
    name = value.name or ""
    if axis is not None:
        levels, scale = to_int8(array, axis)
        if np.all(scale >= np.finfo(np.float32).tiny) and fits(levels, array):
            correct_readers(value, array - from_int8(levels, scale, axis), activations, graph)
            shape = [1] * array.ndim
            shape[axis] = -1
            _put(value, levels, scale.reshape(shape), graph)
            return INT8
    peak = float(np.max(np.abs(array)))
    if not HALF_NORMAL <= peak <= HALF_MAX:
        return "in fp32 (beyond fp16's range)"
    half = to_half(array, taps=has_taps(value))
    correct_readers(value, array - half.astype(np.float32), activations, graph)
    stored = weight(graph, f"{name}_half", half)
    replace(value, [("Cast", [stored], {"to": int(ir.DataType.FLOAT)})], graph)
    return "in fp16"


def _put(
    value: ir.Value, levels: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], graph: ir.Graph
) -> None:
    """Let the readers of a weight read it from 8 bits; rows that are looked up one by one."""
    name = value.name or ""
    stored = weight(graph, f"{name}_uint8", to_unsigned(levels))
    scales = weight(graph, f"{name}_scale", scale)
    for node, index in tuple(value.uses()):
        if is_lookup(node, index) and node.graph is graph:
            rows = look_up(node, stored, scales, ZERO)
            take_over(node.outputs[0], rows, graph)
    if not tuple(value.uses()):
        del graph.initializers[name]
        return
    replace(value, products.dequantize(graph, name, stored, scales), graph)


def has_taps(value: ir.Value) -> bool:
    """Whether a weight is a filter of convolutions with more than one tap."""
    shape = value.shape.numpy() if value.shape is not None else ()
    return bool(np.prod(shape[2:]) > 1) and all(
        node.op_type == "Conv" and index == 1 for node, index in value.uses()
    )


def channel_axis(value: ir.Value) -> int | None:
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
