"""Clustering: a layer has a few distinct values, stored as an index of 8 bits and a codebook.

Han et al., "Deep Compression" (2015), section 3, without the training. A weight is a value of its
layer's codebook times the scale of its output channel; the runtime looks all of them up while it
makes the session. Error compensation makes up for the choice of values where it is known what a
weight is multiplied with.

Every form reads the same bytes. Repeated floats were measured too: 64 values in fp32 are 8.3 bits a
weight after brotli (quality 5) and 32 before it, in fp16 8.1 and 16; as indices 6.0 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.precision.activations import Activations, Float
from builder.precision.compensate import compensated
from builder.precision.correction import correct_readers
from builder.precision.large import Large
from builder.precision.storage import Step, replace, take_over, weight
from builder.precision.tables import is_lookup, look_up_values

ROUNDS = 100
"""Of k-means; it ends where nothing moves any more."""

BINS = 4096
"""Of the histogram that k-means starts from."""


@dataclass(frozen=True)
class Clustered:
    """A weight [K, N] of few distinct values.

    Attributes:
        values: The codebook, float32 [n], ascending.
        indices: uint8 [K, N].
        scale: Of each output, float32 [N].
    """

    values: Float
    indices: npt.NDArray[np.uint8]
    scale: Float

    @property
    def dense(self) -> Float:
        """The weight that it stands for, float32 [K, N]."""
        return np.asarray(self.values[self.indices] * self.scale, np.float32)


def clustered(matrix: Float, count: int, gram: Float | None) -> Clustered:
    """Let a weight have few distinct values.

    Args:
        matrix: float32 [K, N]; zeros stay zeros, and take one of the values.
        count: Of values, 2 to 256.
        gram: Second moments of what it is multiplied with, float32 [K, K], or None.
    """
    power = np.mean(np.square(matrix, dtype=np.float64), axis=0)
    scale = np.where(power > 0, np.sqrt(power), 1).astype(np.float32)
    scaled = matrix / scale
    zeros = matrix == 0
    sparse = bool(zeros.any())
    values = k_means(scaled[~zeros], count - sparse)
    if sparse:
        values = np.sort(np.append(values, np.float32(0)))
    borders = (values[1:] + values[:-1]) / 2
    indices = np.empty(matrix.shape, np.uint8)

    def nearest(k: int, rows: Float) -> Float:
        indices[k] = np.searchsorted(borders, rows[0] / scale)
        return np.asarray(values[indices[k]] * scale, np.float32)

    compensated(matrix, gram, nearest)
    return Clustered(values, indices, scale)


def k_means(points: Float, count: int) -> Float:
    """The values that points are nearest to on average: Lloyd's algorithm on the line.

    It starts from values as dense as the cube root of the points, which is best for many values
    (Panter and Dite, "Quantization Distortion in Pulse-Count Modulation", 1951), so nothing is
    random.

    Args:
        points: float32 [n].
        count: Of values.

    Returns:
        float32 [count] at most, ascending, all different.
    """
    ordered = np.sort(points.astype(np.float64), axis=None)
    distinct = ordered[np.insert(ordered[1:] != ordered[:-1], 0, True)] if ordered.size else ordered
    if distinct.size <= count:
        return distinct.astype(np.float32)
    found, edges = np.histogram(ordered, BINS)
    reached = np.insert(np.cumsum(np.cbrt(found)), 0, 0.0)
    values = np.interp((np.arange(count) + 0.5) / count * reached[-1], reached, edges)
    sums = np.insert(np.cumsum(ordered), 0, 0.0)
    for _ in range(ROUNDS):
        inner = np.searchsorted(ordered, (values[1:] + values[:-1]) / 2)
        ends = np.concatenate([[0], inner, [ordered.size]])
        sizes = np.diff(ends)
        means = np.where(sizes > 0, np.diff(sums[ends]) / np.maximum(sizes, 1), values)
        if np.array_equal(means, values):
            break
        values = means
    return np.unique(values.astype(np.float32))


def store(graph: ir.Graph, layer: Large, made: Clustered, activations: Activations) -> None:
    """Let the readers of a weight read it through its codebook, and correct the biases behind it.

    Args:
        graph: Changed in place.
        layer: The weight as it was.
        made: By `clustered`.
        activations: Statistics of the graph.
    """
    name, value = layer.name, graph.initializers[layer.name]
    correct_readers(value, layer.array - layer.shaped(made.dense), activations, graph)
    shape = [1] * layer.array.ndim
    shape[layer.axis] = -1
    indices = weight(graph, f"{name}_indices", layer.shaped(made.indices))
    values = weight(graph, f"{name}_values", made.values)
    scale = weight(graph, f"{name}_scale", made.scale.reshape(shape))
    for node, index in tuple(value.uses()):
        if is_lookup(node, index) and node.graph is graph and layer.axis == 0:
            take_over(node.outputs[0], look_up_values(node, indices, values, scale), graph)
    if not tuple(value.uses()):
        del graph.initializers[name]
        return
    steps: list[Step] = [
        ("Cast", [indices], {"to": int(ir.DataType.INT32)}),
        ("Gather", [values, None], {}),
        ("Mul", [None, scale], {}),
    ]
    replace(value, steps, graph)
