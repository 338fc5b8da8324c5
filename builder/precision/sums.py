"""What a node sums up inside, from its first input.

Sums are taken without cancellation (of magnitudes), since partial sums come before the total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from builder.model import Array
from builder.passes.base import constant
from builder.precision.bodies import Seen


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


def _exponentials(seen: Seen) -> float:
    return seen.count * float(np.exp(seen.high))


BOUNDS: dict[str, Callable[[Seen], float]] = {
    **dict.fromkeys(
        "ReduceSum ReduceL1 ReduceMean ReduceLogSum GlobalAveragePool".split(),
        lambda seen: seen.total,
    ),
    **dict.fromkeys(
        "ReduceSumSquare ReduceL2 LayerNormalization RMSNormalization LpNormalization "
        "InstanceNormalization GroupNormalization".split(),
        lambda seen: seen.squares,
    ),
    "ReduceLogSumExp": _exponentials,
    **dict.fromkeys(("Softmax", "LogSoftmax"), lambda seen: seen.count),
}
"""The same inside bodies, where only bounds over whole arrays are known; other operators of `INNER`
need no more than the largest magnitude."""
