"""What the activations that meet weights look like: one measuring run for all conversions.

Everything that rounds weights better than to the nearest needs to know what they are multiplied
with: bias correction the mean of each channel, smoothing its largest magnitude, error compensation
the second moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.model import Array, Reference
from builder.passes.base import constant
from builder.precision.ranges import batches, exposing, spread
from builder.session import Session

Float = npt.NDArray[np.float32]

CHANNEL = {"Conv": 1, "Gemm": -1, "MatMul": -1}
"""The axis of the activation that runs along the weight's inputs, by operator."""

CALIBRATION = 256
"""How many references are looked at: evenly spaced ones, the first included."""

ROWS = 1024
"""Rows of one activation that are looked at in one run: evenly spaced ones. Neighbouring pixels
are much alike."""

PORTION = 128
"""Rows whose second moments are added up in one product."""

KEPT_ROWS = 256
"""Rows of one activation that are kept for trying out ways of rounding it."""

GRAM_CHANNELS = 4096
"""No second moments for more channels than this: 64 MB each."""


@dataclass
class Statistics:
    """Of one activation with K channels, over all rows of all references.

    Attributes:
        count: Rows that were looked at.
        positions: Rows that there were.
        total: Sum of each channel, float64 [K].
        low: Least element of each channel, float32 [K].
        high: Largest element of each channel, float32 [K].
        gram: Sum of the outer products of rows, float32 [K, K]; None where only a convolution with
            more than one tap or in groups reads the value, or K is above `GRAM_CHANNELS`.
        rows: Some rows, float32 [n, K].
    """

    count: int
    positions: int
    total: npt.NDArray[np.float64]
    low: Float
    high: Float
    gram: Float | None
    rows: Float

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """Mean of each channel, float64 [K]."""
        return self.total / max(self.count, 1)

    @property
    def peak(self) -> Float:
        """Largest magnitude of each channel, float32 [K]."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


Activations = dict[str, Statistics]
"""By name of a value."""


def measure(model: ir.Model, references: Sequence[Reference]) -> Activations:
    """Run the fp32 graph and take statistics of every activation that meets a weight.

    Args:
        model: In normal form.
        references: Only inputs are used, of at most `CALIBRATION`.

    Raises:
        UnsupportedError: The graph can't be run.
    """
    wanted: dict[ir.Value, tuple[int, bool]] = {}
    for node in model.graph:
        value = _activation(node)
        if value is not None:
            known = wanted.get(value, (0, False))[1]
            wanted[value] = CHANNEL[node.op_type], known or _is_product(node)
    chosen = spread(references, CALIBRATION)
    gathered: dict[ir.Value, _Gathering] = {
        value: _Gathering(axis, gram, -(-KEPT_ROWS // max(len(chosen), 1)))
        for value, (axis, gram) in wanted.items()
    }
    for value in wanted:
        for reference in chosen:
            if (array := reference.inputs.get(value.name or "")) is not None:
                gathered[value].add(array)
    for batch in batches([value for value in wanted if value.producer() is not None]):
        session = Session(exposing(model, batch))
        inputs = (reference.inputs for reference in chosen)
        for results in session.each(inputs, [value.name or "" for value in batch]):
            for value in batch:
                gathered[value].add(results[value.name or ""])
    return {
        value.name or "": statistics
        for value, gathering in gathered.items()
        if (statistics := gathering.statistics()) is not None
    }


def _activation(node: ir.Node) -> ir.Value | None:
    """The activation of a product with a weight that is its second operand."""
    if node.op_type not in CHANNEL or node.domain != "" or constant(node.inputs[1]) is None:
        return None
    value = node.inputs[0]
    return None if value is None or constant(value) is not None else value


def _is_product(node: ir.Node) -> bool:
    """Whether the node multiplies rows of channels: a pointwise convolution does."""
    if node.op_type != "Conv":
        return node.attributes.get_int("transA", 0) == 0
    weight = constant(node.inputs[1])
    grouped = node.attributes.get_int("group", 1) != 1
    return weight is not None and not grouped and all(d == 1 for d in weight.shape.numpy()[2:])


class _Gathering:
    """Adds up one activation, run by run."""

    def __init__(self, axis: int, gram: bool, rows_each: int) -> None:
        self._axis, self._gram, self._rows_each = axis, gram, rows_each
        self._found: Statistics | None = None
        self._rows: list[Float] = []
        self._waiting: list[Float] = []

    def add(self, array: Array) -> None:
        if array.ndim == 0 or array.size == 0:
            return
        # Non-finite values (a mask, say) would spoil every sum; they carry no rounding error.
        channels = np.moveaxis(array, self._axis % array.ndim, -1)
        all_rows = channels.reshape(-1, channels.shape[-1])
        rows = np.nan_to_num(_every(all_rows, ROWS).astype(np.float32), posinf=0.0, neginf=0.0)
        found = self._found
        if found is None:
            width = rows.shape[-1]
            with_gram = self._gram and width <= GRAM_CHANNELS
            found = self._found = Statistics(
                0,
                0,
                np.zeros(width),
                np.full(width, np.inf, np.float32),
                np.full(width, -np.inf, np.float32),
                np.zeros((width, width), np.float32) if with_gram else None,
                rows[:0],
            )
        if rows.shape[-1] != found.total.size:
            return  # an axis whose extent depends on the input carries no weight's channels
        found.count += len(rows)
        found.positions += len(all_rows)
        found.total += rows.sum(axis=0, dtype=np.float64)
        found.low = np.minimum(found.low, rows.min(axis=0))
        found.high = np.maximum(found.high, rows.max(axis=0))
        if found.gram is not None:
            self._waiting.append(rows)
            if sum(map(len, self._waiting)) >= PORTION:
                self._add_to_gram(found.gram)
        self._rows.append(_every(rows, self._rows_each))

    def statistics(self) -> Statistics | None:
        found = self._found
        if found is not None:
            if found.gram is not None and self._waiting:
                self._add_to_gram(found.gram)
            found.rows = np.concatenate(self._rows)
        return found

    def _add_to_gram(self, gram: Float) -> None:
        """In large portions: adding to K x K numbers costs more than a product of few rows."""
        rows = np.concatenate(self._waiting)
        self._waiting.clear()
        gram += rows.T @ rows


def _every(rows: npt.NDArray[Any], limit: int) -> npt.NDArray[Any]:
    """At most `limit` rows, evenly spaced."""
    return rows[:: max(1, -(-len(rows) // limit))]


def operations(model: ir.Model, activations: Activations) -> Iterator[tuple[ir.Node, int]]:
    """Multiplications of each node of the main graph with its weight, over the calibration.

    Strides and padding are neglected: it is for comparing nodes.
    """
    for node in model.graph:
        value = _activation(node)
        tensor = constant(node.inputs[1]) if value is not None else None
        known = activations.get(value.name or "") if value is not None else None
        if known is not None and tensor is not None:
            yield node, known.positions * int(tensor.size)
