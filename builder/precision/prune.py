"""Pruning by magnitude: the smallest weights of a layer become 0, and compress to next to nothing.

Han et al., "Learning both Weights and Connections for Efficient Neural Networks" (2015), without
the training: instead, what a weight loses is given back by the ones that stay, with the sums that
error compensation has (Frantar and Alistarh, "SparseGPT" (2023), section 3.2, with a fixed mask).
Zeros stay zeros in every form: 8 and 4 bits have a level for 0 (`builder.precision.compensate`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from builder.precision.activations import Activations, Float
from builder.precision.compensate import compensated
from builder.precision.correction import correct_readers
from builder.precision.large import Large


def pruned(matrix: Float, share: float, gram: Float | None) -> Float:
    """A weight with its smallest elements 0.

    Args:
        matrix: float32 [K, N].
        share: Of the elements that become 0, 0 to 1, rounded down to whole elements; where several
            are as small, the first of them.
        gram: Second moments of what it is multiplied with, float32 [K, K], or None.
    """
    zeros = np.zeros(matrix.size, np.bool_)
    order = np.argsort(np.abs(matrix), axis=None, kind="stable")
    zeros[order[: int(share * matrix.size)]] = True
    return compensated(matrix, gram, lambda _k, rows: rows[0], zeros.reshape(matrix.shape))


def store(graph: ir.Graph, layer: Large, array: Float, activations: Activations) -> None:
    """Put a pruned weight into its place, and correct the biases behind it.

    Args:
        graph: Changed in place.
        layer: The weight as it was.
        array: By `pruned`, in the weight's shape.
        activations: Statistics of the graph.
    """
    value = graph.initializers[layer.name]
    value.const_value = ir.tensor(array, name=layer.name)
    correct_readers(value, layer.array - array, activations, graph)
