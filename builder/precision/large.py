"""Large weights as matrices, whatever reads them: what pruning and clustering work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from builder.passes.base import constant
from builder.precision.activations import CHANNEL, Activations, Float
from builder.precision.int8 import channel_axis
from builder.precision.storage import float_weights

ELEMENTS = 10_000
"""Weights from this size on: smaller ones are a few kilobytes, and much of the error."""


@dataclass(frozen=True)
class Large:
    """A weight of the main graph with an axis of output channels.

    Attributes:
        name: Of the weight.
        array: float32, finite.
        axis: Of its output channels; rows, where it is a table.
        gram: Second moments of what it is multiplied with, float32 [K, K], or None; see
            `builder.precision.activations`.
    """

    name: str
    array: Float
    axis: int
    gram: Float | None

    @property
    def matrix(self) -> Float:
        """float32 [K, N]: one column for each output channel."""
        moved = np.moveaxis(self.array, self.axis, -1)
        return np.ascontiguousarray(moved.reshape(-1, moved.shape[-1]))

    def shaped(self, matrix: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Float:
        """A matrix [K, N] in the weight's own shape; its element type stays."""
        moved = np.moveaxis(self.array, self.axis, -1).shape
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(moved), -1, self.axis))


def find(graph: ir.Graph, activations: Activations) -> list[Large]:
    """Large weights in the order of the graph's initializers."""
    found = []
    for value in float_weights(graph):
        tensor, axis = constant(value), channel_axis(value)
        if tensor is None or tensor.size < ELEMENTS or axis is None:
            continue
        array = np.asarray(tensor.numpy(), np.float32)
        if np.isfinite(array).all():
            inputs = array.size // array.shape[axis]
            gram = _gram(value, activations, inputs)
            found.append(Large(value.name or "", array, axis, gram))
    return found


def _gram(value: ir.Value, activations: Activations, inputs: int) -> Float | None:
    """Of the one activation that a weight meets; None where it meets several, or no rows of it."""
    uses = tuple(value.uses())
    node, index = uses[0]
    if len(uses) > 1 or index != 1 or node.op_type not in CHANNEL or node.domain != "":
        return None
    grouped = node.op_type == "Conv" and node.attributes.get_int("group", 1) != 1
    known = activations.get((node.inputs[0].name or "") if node.inputs[0] is not None else "")
    gram = known.gram if known is not None and not grouped else None
    return gram if gram is not None and len(gram) == inputs else None
