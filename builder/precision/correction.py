"""Bias correction: what rounding a weight shifts on average is given back through the bias.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019),
section 4.2, in its variant with data: E[W x] - E[W' x] = (W - W') E[x], with E[x] from calibration
runs. EfficientNet-Lite0 in int8, measured: 28 dB and 92 % top-1 agreement without, 32 dB and
100 % with it (24 crops, means from 8 of them).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.passes.base import constant
from builder.precision.activations import CHANNEL, Activations
from builder.precision.storage import weight


def correct_readers(
    value: ir.Value, lost: npt.NDArray[np.float32], activations: Activations, graph: ir.Graph
) -> None:
    """Correct the bias of every node that multiplies with a weight; see `correct`."""
    for node, index in tuple(value.uses()):
        if index == 1 and node.op_type in CHANNEL and node.graph is graph and node.domain == "":
            correct(node, lost, activations, graph)


def correct(
    node: ir.Node, lost: npt.NDArray[np.float32], activations: Activations, graph: ir.Graph
) -> bool:
    """Add what a rounded weight lost on average to the bias of the node that reads it.

    Args:
        node: `Conv`, `Gemm` or `MatMul` that reads the weight as its second input.
        lost: Exact weight minus rounded weight, in the weight's shape.
        activations: Statistics of the graph.
        graph: Where the weight lives; a bias that others read too is copied.

    Returns:
        Whether there was a bias (or a place for one) and a finite mean.
    """
    source = node.inputs[0]
    found = activations.get(source.name or "") if source is not None else None
    mean = found.mean if found is not None else None
    place = _bias_place(node)
    if mean is None or place is None or not np.isfinite(mean).all():
        return False
    shift = _shift(node, lost.astype(np.float64), mean)
    if shift is None:
        return False
    reader, index = place
    old = reader.inputs[index] if index < len(reader.inputs) else None
    tensor = constant(old)
    bias = np.zeros(shift.shape) if tensor is None else tensor.numpy().astype(np.float64)
    if bias.shape != shift.shape:
        return False
    name = f"{old.name if old is not None else node.name}_corrected"
    value = weight(graph, name, (bias + shift).astype(np.float32))
    if index >= len(reader.inputs):
        reader.resize_inputs(index + 1)
    reader.replace_input_with(index, value)
    return True


def _bias_place(node: ir.Node) -> tuple[ir.Node, int] | None:
    """Node and position of a constant bias; for `MatMul`, of the `Add` that follows."""
    if node.op_type == "Conv":
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        return (node, 2) if bias is None or constant(bias) is not None else None
    if node.op_type == "Gemm":
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        plain = all(node.attributes.get_float(key, 1.0) == 1.0 for key in ("alpha", "beta"))
        turned = node.attributes.get_int("transA", 0) == 1
        return (node, 2) if constant(bias) is not None and plain and not turned else None
    uses = tuple(node.outputs[0].uses())
    if node.op_type != "MatMul" or len(uses) != 1 or node.outputs[0].is_graph_output():
        return None
    reader, index = uses[0]
    if reader.op_type != "Add" or constant(reader.inputs[1 - index]) is None:
        return None
    return reader, 1 - index


def _shift(
    node: ir.Node, lost: npt.NDArray[np.float64], mean: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64] | None:
    """(W - W') E[x], one figure for each output channel; borders of padding are neglected."""
    if node.op_type == "Conv":
        groups = int(node.attributes.get_int("group", 1))
        kernels = lost.reshape(groups, lost.shape[0] // groups, lost.shape[1], -1).sum(axis=-1)
        shift = np.einsum("goc,gc->go", kernels, mean.reshape(groups, -1))
        return np.asarray(shift).reshape(-1)
    if lost.ndim != 2:
        return None
    turned = node.op_type == "Gemm" and node.attributes.get_int("transB", 0) == 1
    return np.asarray(mean @ (lost.T if turned else lost))
