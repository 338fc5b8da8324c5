"""How large the fp32 activations get, and the sums inside operators: what half can't hold.

onnxruntime's CPU provider runs an fp16 graph by casting to fp32 and back, so running one there
proves nothing about overflow. The ranges of the fp32 graph do, and `builder.precision.emulate`
holds the result against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from builder.errors import UnsupportedError
from builder.model import Array, Reference
from builder.passes.base import constant, nodes_of, weights_of
from builder.passes.clean import RemoveUnused
from builder.precision import bodies
from builder.precision.bodies import Seen
from builder.precision.sums import BOUNDS, INNER
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
        values: Range of each numeric value, by name; values inside bodies of control flow only
            where a run has been through them.
        rows: Largest Euclidean norm along the last axis, of activations that are multiplied with
            activations from the left, by name.
        columns: The same along the last axis but one, for those on the right.
        inner: Largest sum that appears inside a node while it computes, by the node's name; an
            estimate from above for products with weights and inside bodies, else measured.
        seen: Bounds of values inside bodies, by name.
    """

    values: dict[str, Range] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)
    columns: dict[str, float] = field(default_factory=dict)
    inner: dict[str, float] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)


def measure(model: ir.Model, references: Sequence[Reference]) -> Ranges:
    """Run the fp32 graph on the CPU and take the range of every value, inside bodies too.

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
    for value in weights_of(model):
        if value.const_value is not None and value.dtype == ir.DataType.FLOAT:
            _record(value, value.const_value.numpy(), ranges)
    for name, found in _inside(model, chosen).items():
        _record_seen(name, found, ranges)
    for node in bodies.inside(model):
        _bound(node, ranges)
    for node in nodes_of(model):
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


def _inside(model: ir.Model, references: Sequence[Reference]) -> dict[str, Seen]:
    """What bodies of control flow see; nothing where they can't be watched."""
    copy, tables = bodies.watched(model)
    if not tables:
        return {}
    RemoveUnused()(copy)
    try:
        session = Session(copy)
        results = list(session.each(reference.inputs for reference in references))
    except UnsupportedError:  # a graph that itself can't be run has been refused before
        return {}
    return bodies.seen(tables, results)


def _record_seen(name: str, found: Seen, ranges: Ranges) -> None:
    ranges.values[name] = Range(found.low, found.high)
    # No row or column is longer than all of them.
    ranges.rows[name] = ranges.columns[name] = math.sqrt(found.squares)
    ranges.seen[name] = found


def _bound(node: ir.Node, ranges: Ranges) -> None:
    """The largest sum inside a node of a body, from above; infinite where nothing bounds it."""
    bound = BOUNDS.get(node.op_type) if node.domain == "" else None
    value = node.inputs[0] if node.inputs else None
    if value is None or node.op_type not in INNER:
        return
    found = ranges.seen.get(value.name or "")
    if found is None:
        return
    peak = np.array([max(-found.low, found.high, 0.0)])
    with np.errstate(all="ignore"):
        sum_ = bound(found) if bound is not None else INNER[node.op_type](node, peak)
    key = node.name or ""
    ranges.inner[key] = max(ranges.inner.get(key, 0.0), math.inf if sum_ != sum_ else sum_)
