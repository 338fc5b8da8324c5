"""How large the fp32 activations get, and the sums inside operators: what half can't hold.

onnxruntime's CPU provider runs an fp16 graph by casting to fp32 and back, so running one there
proves nothing about overflow. The ranges of the fp32 graph do, and `builder.precision.emulate`
holds the result against them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from builder.model import Array, Reference
from builder.passes.base import constant
from builder.passes.clean import RemoveUnused
from builder.session import Session

HALF_MAX = 65504.0
"""Largest finite fp16: (2 - 2^-10) * 2^15."""

MARGIN = 2.0
"""Other inputs than the references may reach twice their range before anything overflows."""

LIMIT = HALF_MAX / MARGIN
"""Largest magnitude that is left in half."""

REFERENCES = 8
"""How many references are looked at: evenly spaced ones, the first included."""

BATCH_BYTES = 64 * 1024 * 1024
"""Activations fetched in one run; several runs are made where there are more."""

UNKNOWN_BYTES = 512 * 1024
"""What an activation without a static shape counts as."""


@dataclass
class Range:
    """Lowest and highest element of a value over all references; both infinite if any is."""

    low: float = math.inf
    high: float = -math.inf

    @property
    def peak(self) -> float:
        """Largest magnitude; 0 for a value that never had an element."""
        return max(-self.low, self.high, 0.0)

    def include(self, array: Array) -> None:
        """Widen by the elements of an array; NaN counts as infinite."""
        if array.size == 0:
            return
        low, high = float(np.min(array)), float(np.max(array))
        if math.isnan(low) or math.isnan(high):
            low, high = -math.inf, math.inf
        self.low, self.high = min(self.low, low), max(self.high, high)


@dataclass
class Ranges:
    """What was measured.

    Attributes:
        values: Range of each numeric value of the main graph, by name.
        rows: Largest Euclidean norm along the last axis, of activations that are multiplied with
            activations from the left, by name.
        columns: The same along the last axis but one, for those on the right.
        inner: Largest sum that appears inside a node while it computes, by the node's name; an
            estimate from above for products with weights, measured for reductions and norms.
    """

    values: dict[str, Range] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)
    columns: dict[str, float] = field(default_factory=dict)
    inner: dict[str, float] = field(default_factory=dict)


def measure(model: ir.Model, references: Sequence[Reference]) -> Ranges:
    """Run the fp32 graph on the CPU and take the range of every value of its main graph.

    Values are fetched in batches so that memory is bounded (`BATCH_BYTES` and the run's own).

    Args:
        model: In normal form: every value has a name of its own.
        references: At least one; only their inputs are used.

    Raises:
        UnsupportedError: The graph can't be run.
    """
    chosen = spread(references)
    ranges = Ranges()
    graph = model.graph
    for value in graph.inputs:
        for reference in chosen:
            array = reference.inputs.get(value.name or "")
            if array is not None:
                _record(value, array, ranges)
    produced = [
        value
        for node in graph
        for value in node.outputs
        if value.name and isinstance(value.type, ir.TensorType | None)
    ]
    for batch in batches(produced):
        session = Session(exposing(model, batch))
        inputs = (reference.inputs for reference in chosen)
        for results in session.each(inputs, [value.name or "" for value in batch]):
            for value in batch:
                array = results[value.name or ""]
                if isinstance(array, np.ndarray) and array.dtype.kind in "fiu":
                    _record(value, array, ranges)
    for value in graph.initializers.values():
        if value.const_value is not None and value.dtype == ir.DataType.FLOAT:
            _record(value, value.const_value.numpy(), ranges)
    for node in graph:
        if node.op_type == "MatMul" and node.domain == "" and node.name:
            left, right = (value.name or "" if value is not None else "" for value in node.inputs)
            # Cauchy and Schwarz: sum |a b| <= |a| |b|.
            bound = ranges.rows.get(left, 0.0) * ranges.columns.get(right, 0.0)
            ranges.inner[node.name] = max(ranges.inner.get(node.name, 0.0), bound)
    return ranges


def spread(references: Sequence[Reference], limit: int = REFERENCES) -> list[Reference]:
    """At most `limit` of them, evenly spaced."""
    step = max(1, math.ceil(len(references) / limit))
    return list(references[::step])


def batches(values: Sequence[ir.Value]) -> Iterator[list[ir.Value]]:
    """Values that may be fetched in one run together, by `BATCH_BYTES`."""
    batch: list[ir.Value] = []
    size = 0
    for value in values:
        batch.append(value)
        size += _bytes(value)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _bytes(value: ir.Value) -> int:
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return UNKNOWN_BYTES
    return int(np.prod(value.shape.numpy(), dtype=np.int64)) * max(int(value.dtype.itemsize), 1)


def exposing(model: ir.Model, values: Sequence[ir.Value]) -> ir.Model:
    """The part of the graph that computes these values, with them as its outputs."""
    copy = model.clone()
    graph = copy.graph
    places = {value.name: value for node in graph for value in node.outputs}
    graph.outputs[:] = [places[value.name] for value in values]
    RemoveUnused()(copy)
    return copy


def _record(value: ir.Value, array: Array, ranges: Ranges) -> None:
    name = value.name or ""
    ranges.values.setdefault(name, Range()).include(array)
    if array.dtype.kind != "f" or array.size == 0:
        return
    if constant(value) is None and array.ndim > 1:
        _record_norms(value, array, ranges)
    for node, index in value.uses():
        estimate = INNER.get(node.op_type) if node.domain == "" and node.name else None
        if estimate is not None and index == 0:
            with np.errstate(all="ignore"):
                found = estimate(node, array.astype(np.float64))
            key = node.name or ""
            ranges.inner[key] = max(
                ranges.inner.get(key, 0.0), math.inf if found != found else found
            )


def _record_norms(value: ir.Value, array: Array, ranges: Ranges) -> None:
    name = value.name or ""
    for node, index in value.uses():
        if node.op_type != "MatMul" or any(
            constant(operand) is not None for operand in node.inputs
        ):
            continue
        table, axis = (ranges.rows, -1) if index == 0 else (ranges.columns, -2)
        with np.errstate(all="ignore"):
            norm = float(np.sqrt(np.max(np.sum(np.square(array, dtype=np.float64), axis=axis))))
        table[name] = max(table.get(name, 0.0), math.inf if norm != norm else norm)


# What a node sums up inside, from its first input. Sums are taken without cancellation (of
# magnitudes), since partial sums come before the total.


def _reduced_axes(node: ir.Node, rank: int) -> tuple[int, ...] | None:
    """Axes of a reduction, None for all; also for axes that only the run knows."""
    if "axes" in node.attributes:
        axes: Sequence[int] = node.attributes["axes"].as_ints()
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        tensor = constant(node.inputs[1])
        axes = [] if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]
    else:
        axes = []
    return tuple(sorted({axis % rank for axis in axes})) or None


def _sum_of_squares(node: ir.Node, array: Array) -> float:
    return float(np.max(np.sum(np.square(array), axis=_reduced_axes(node, array.ndim))))


def _sum(node: ir.Node, array: Array) -> float:
    return float(np.max(np.sum(np.abs(array), axis=_reduced_axes(node, array.ndim))))


def _sum_of_exponentials(node: ir.Node, array: Array) -> float:
    return float(np.max(np.sum(np.exp(array), axis=_reduced_axes(node, array.ndim))))


def _softmax(node: ir.Node, array: Array) -> float:
    """The largest term is exp(0) = 1, so the sum is at most the number of elements."""
    return float(array.shape[node.attributes.get_int("axis", -1)]) if array.ndim else 1.0


def _trailing_squares(node: ir.Node, array: Array) -> float:
    """Norms over the last axes, from `axis` on (-1 where there is no such attribute)."""
    axis = node.attributes.get_int("axis", -1) % max(array.ndim, 1)
    return float(np.max(np.sum(np.square(array), axis=tuple(range(axis, array.ndim)))))


def _spatial_squares(node: ir.Node, array: Array) -> float:
    return float(np.max(np.sum(np.square(array), axis=tuple(range(2, array.ndim)))))


def _group_squares(node: ir.Node, array: Array) -> float:
    groups = int(node.attributes.get_int("num_groups", 1))
    return float(np.max(np.sum(np.square(array.reshape(array.shape[0], groups, -1)), axis=-1)))


def _spatial_sum(node: ir.Node, array: Array) -> float:
    return float(np.max(np.sum(np.abs(array), axis=tuple(range(2, array.ndim)))))


def _window(node: ir.Node, array: Array) -> float:
    return float(np.max(np.abs(array)) * np.prod(node.attributes["kernel_shape"].as_ints()))


def _product(node: ir.Node, array: Array) -> float:
    """Bound of every partial sum of a product with weights, by Cauchy and Schwarz.

    sum |x w| <= |x| |w|, with |x| <= sqrt(K) max |x| for a sum of K terms; the largest |w| over
    output channels. For two activations there is no cheap bound; the result's range is what counts.
    """
    tensor = constant(node.inputs[1])
    if tensor is None:
        return 0.0
    weight = tensor.numpy().astype(np.float64)
    if weight.ndim < 2:
        rows = weight.reshape(1, -1)
    elif node.op_type == "Conv" or node.attributes.get_int("transB", 0) == 1:
        rows = weight.reshape(weight.shape[0], -1)
    elif node.op_type == "ConvTranspose":
        rows = weight.swapaxes(0, 1).reshape(weight.shape[1], -1)
    else:
        rows = weight.swapaxes(-1, -2).reshape(-1, weight.shape[-2])
    if rows.size == 0:
        return 0.0
    norm = float(np.sqrt(np.max(np.sum(np.square(rows), axis=-1))))
    return norm * math.sqrt(rows.shape[-1]) * float(np.max(np.abs(array)))


INNER: dict[str, Callable[[ir.Node, Array], float]] = {
    "ReduceSumSquare": _sum_of_squares,
    "ReduceL2": _sum_of_squares,
    "ReduceSum": _sum,
    "ReduceL1": _sum,
    "ReduceMean": _sum,
    "ReduceLogSum": _sum,
    "ReduceLogSumExp": _sum_of_exponentials,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _trailing_squares,
    "RMSNormalization": _trailing_squares,
    "LpNormalization": _trailing_squares,
    "InstanceNormalization": _spatial_squares,
    "GroupNormalization": _group_squares,
    "GlobalAveragePool": _spatial_sum,
    "AveragePool": _window,
    "Conv": _product,
    "ConvTranspose": _product,
    "Gemm": _product,
    "MatMul": _product,
}
"""The largest sum inside a node, by operator. Elementwise ones (Pow, Exp) show in their result."""
