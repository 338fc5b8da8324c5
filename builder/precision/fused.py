"""Convolutions with what stands behind them in one node: onnxruntime's own `FusedConv`.

The runtime makes them itself where nothing else would be in between; where a form takes a
convolution apart, it has to write them. See onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from builder.passes.base import constant

FARTHEST = float(np.finfo(np.float32).max)
"""What a `Clip` without a bound has for one."""


@dataclass(frozen=True)
class Fused:
    """What a convolution and its activation are together.

    Attributes:
        output: What the activation gives, or the convolution where there is none.
        attributes: Of the `FusedConv`.
    """

    output: ir.Value
    attributes: dict[str, object] = field(default_factory=dict)


def behind(node: ir.Node) -> Fused:
    """The `Clip` or `Relu` that alone reads a convolution, if there is one.

    A `Clip` whose bounds aren't constants stays a node of its own.
    """
    output = node.outputs[0]
    uses = tuple(output.uses())
    if len(uses) != 1 or output.is_graph_output():
        return Fused(output)
    reader, index = uses[0]
    if index != 0 or reader.domain != "" or reader.graph is not node.graph:
        return Fused(output)
    if reader.op_type == "Relu":
        return Fused(reader.outputs[0], {"activation": "Relu"})
    limits = bounds(reader)
    if limits is None:
        return Fused(output)
    return Fused(reader.outputs[0], {"activation": "Clip", "activation_params": limits})


def bounds(node: ir.Node) -> list[float] | None:
    """Least and largest that a `Clip` gives; None for other nodes, or where only the run knows.

    They are inputs from opset 11 on, attributes before.
    """
    if node.op_type != "Clip":
        return None
    found = []
    for place, (name, default) in enumerate((("min", -FARTHEST), ("max", FARTHEST)), start=1):
        value = node.inputs[place] if len(node.inputs) > place else None
        tensor = constant(value)
        if value is not None and tensor is None:
            return None
        known = node.attributes.get_float(name, default)
        found.append(float(tensor.numpy().reshape(-1)[0]) if tensor is not None else known)
    return found


def extents(value: ir.Value | None) -> tuple[int, int] | None:
    """Height and width of an image [N, C, H, W], if both are known."""
    if value is None or value.shape is None or len(value.shape) != 4:
        return None
    height, width = value.shape[2], value.shape[3]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def window(node: ir.Node, sizes: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """Padding of a convolution on images that moves by 1 and has no gaps.

    Args:
        node: A `Conv`.
        sizes: Height and width of its filter.

    Returns:
        Top, left, bottom, right; None for a convolution of another kind.
    """
    attributes = node.attributes
    ones = all(
        list(attributes.get_ints(name, (1, 1))) == [1, 1] for name in ("strides", "dilations")
    )
    if not ones:
        return None
    kind = attributes.get_string("auto_pad", "NOTSET")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = [(size - 1) // 2 for size in sizes], [size // 2 for size in sizes]
        if kind == "SAME_LOWER":
            begins, ends = ends, begins
        return begins[0], begins[1], ends[0], ends[1]
    pads = [0, 0, 0, 0] if kind == "VALID" else list(attributes.get_ints("pads", (0, 0, 0, 0)))
    return (pads[0], pads[1], pads[2], pads[3]) if min(pads) >= 0 else None
