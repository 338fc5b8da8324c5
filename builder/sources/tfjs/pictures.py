"""TensorFlow's operators on pictures: convolutions, pools, resizing, and what is fused in."""

from __future__ import annotations

from collections.abc import Mapping

from builder.sources.tfjs import nets
from builder.sources.tfjs.arithmetic import Emit
from builder.sources.tfjs.nets import Pair
from builder.sources.tfjs.nodes import Node
from builder.sources.tfjs.shaping import fixed, parts_of
from builder.sources.tfjs.values import Graph, Value


def _pair(node: Node, name: str) -> Pair:
    """Height and width of an attribute for four axes, channels last.

    Raises:
        UnsupportedError: Channels are second, or batch and channels take part.
    """
    if node.text("data_format", "NHWC") != "NHWC":
        raise node.refuse("its channels aren't the last axis")
    found = node.integers(name) or [1, 1, 1, 1]
    if len(found) != 4 or found[0] != 1 or found[3] != 1:
        raise node.refuse(f"its {name} are {found}")
    return found[1], found[2]


def _pad(node: Node) -> str | list[int]:
    kind = node.text("padding")
    if kind != "EXPLICIT":
        return kind
    pairs = node.integers("explicit_paddings")
    top, bottom, left, right = pairs[2:6]
    return [top, left, bottom, right]


def _convolution(*, depthwise: bool, fused: bool) -> Emit:
    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        steps = node.texts("fused_ops") if fused else []
        biased = steps[:1] == ["BiasAdd"]
        result = nets.convolve(
            g,
            x[0],
            x[1],
            strides=_pair(node, "strides"),
            dilations=_pair(node, "dilations"),
            pad=_pad(node),
            depthwise=depthwise,
            bias=x[2] if biased else None,
        )
        return _fused(g, node, result, steps[1:] if biased else steps, x[-1])

    return emit


def _fused(g: Graph, node: Node, result: Value, steps: list[str], last: Value) -> Value:
    """Do what was fused onto the end of an operator; slopes are its last input."""
    for step in steps:
        name = step.lower()
        if name == "prelu":
            result = nets.prelu(g, result, last)
        elif name == "leakyrelu":
            result = nets.leaky(g, result, node.number("leakyrelu_alpha", 0.2))
        elif name in nets.ACTIVATIONS:
            result = nets.ACTIVATIONS[name](g, result)
        else:
            raise node.refuse(f"{step} is fused into it")
    return result


def _fused_matmul(g: Graph, node: Node, x: list[Value]) -> Value:
    steps = node.texts("fused_ops")
    biased = steps[:1] == ["BiasAdd"]
    result = nets.product(
        g,
        x[0],
        x[1],
        turn_left=node.flag("transpose_a"),
        turn_right=node.flag("transpose_b"),
        bias=x[2] if biased else None,
    )
    return _fused(g, node, result, steps[1:] if biased else steps, x[-1])


def _deconvolution(g: Graph, node: Node, x: list[Value]) -> Value:
    sizes, kernel, picture = x
    pad = _pad(node)
    if not isinstance(pad, str):
        raise node.refuse("its padding is explicit")
    parts = parts_of(sizes) or [None] * 4
    strides = _pair(node, "strides")
    return nets.deconvolve(g, picture, kernel, strides=strides, pad=pad, size=parts[1:3])


def _pool(kind: str) -> Emit:
    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        size, strides, pad = _pair(node, "ksize"), _pair(node, "strides"), _pad(node)
        if not isinstance(pad, str):
            raise node.refuse("its padding is explicit")
        return nets.pool(g, kind, x[0], size, strides, pad)

    return emit


def _bias(g: Graph, node: Node, x: list[Value]) -> Value:
    if node.text("data_format", "NHWC") != "NHWC":
        raise node.refuse("its channels aren't the last axis")
    return nets.biased(g, x[0], x[1])


def _batch_norm(g: Graph, node: Node, x: list[Value]) -> list[Value]:
    if node.flag("is_training") or node.text("data_format", "NHWC") != "NHWC":
        raise node.refuse("it is in training, or its channels aren't the last axis")
    return [nets.normalised(g, x[0], x[1:5], node.number("epsilon", 1e-4))]


def _resize(*, linear: bool) -> Emit:
    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        result = nets.resized(
            g,
            x[0],
            fixed(node, x[1], "new height and width"),
            linear=linear,
            corners=node.flag("align_corners"),
            halves=node.flag("half_pixel_centers"),
        )
        return g.cast_to(result, "float32") if linear else result

    return emit


def _blocks(kind: str) -> Emit:
    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        if node.text("data_format", "NHWC") != "NHWC":
            raise node.refuse("its channels aren't the last axis")
        size = node.integer("block_size")
        return Value(turned=g.op(kind, g.turned(x[0]), blocksize=size))

    return emit


def _to_batch(g: Graph, node: Node, x: list[Value]) -> Value:
    """SpaceToBatchND: pieces of each picture become pictures of their own."""
    height, width = _block(node, x)
    if x[2].array is None:
        raise node.refuse("its paddings aren't constant")
    (top, bottom), (left, right) = x[2].array.tolist()
    pads = g.constant([0, 0, top, left, 0, 0, bottom, right])
    name = g.op("Pad", g.turned(x[0]), pads)
    _, c, h, w = _known(g, node, name)
    name = g.reshaped(name, [-1, c, h // height, height, w // width, width])
    name = g.op("Transpose", name, perm=(3, 5, 0, 1, 2, 4))
    return Value(turned=g.reshaped(name, [-1, c, h // height, w // width]))


def _from_batch(g: Graph, node: Node, x: list[Value]) -> Value:
    """BatchToSpaceND: the other way round."""
    height, width = _block(node, x)
    if x[2].array is None:
        raise node.refuse("its crops aren't constant")
    (top, bottom), (left, right) = x[2].array.tolist()
    name = g.turned(x[0])
    _, c, h, w = _known(g, node, name)
    name = g.reshaped(name, [height, width, -1, c, h, w])
    name = g.op("Transpose", name, perm=(2, 3, 4, 0, 5, 1))
    name = g.reshaped(name, [-1, c, h * height, w * width])
    ends = [h * height - bottom, w * width - right]
    axes = g.constant([2, 3])
    return Value(turned=g.op("Slice", name, g.constant([top, left]), g.constant(ends), axes))


def _block(node: Node, x: list[Value]) -> Pair:
    found = fixed(node, x[1], "block sizes")
    if len(found) != 2:
        raise node.refuse(f"it has {len(found)} block sizes, pictures have two")
    return found[0], found[1]


def _known(g: Graph, node: Node, name: str) -> list[int]:
    dims = g.shape_of(name) or [None] * 4
    if None in dims[1:]:
        raise node.refuse("the size of its picture isn't known")
    return [int(dim or 0) for dim in dims]


def _local(g: Graph, node: Node, x: list[Value]) -> Value:
    size = 2 * node.integer("depth_radius", 5) + 1
    alpha = node.number("alpha", 1) * size
    bias, beta = node.number("bias", 1), node.number("beta", 0.5)
    name = g.op("LRN", g.turned(x[0]), size=size, alpha=alpha, beta=beta, bias=bias)
    return Value(turned=name)


OPERATORS: Mapping[str, Emit] = {
    "AvgPool": _pool("AveragePool"),
    "BatchToSpaceND": _from_batch,
    "BiasAdd": _bias,
    "Conv2D": _convolution(depthwise=False, fused=False),
    "Conv2DBackpropInput": _deconvolution,
    "DepthToSpace": _blocks("DepthToSpace"),
    "DepthwiseConv2d": _convolution(depthwise=True, fused=False),
    "DepthwiseConv2dNative": _convolution(depthwise=True, fused=False),
    "FusedBatchNorm": _batch_norm,
    "FusedBatchNormV2": _batch_norm,
    "FusedBatchNormV3": _batch_norm,
    "FusedDepthwiseConv2dNative": _convolution(depthwise=True, fused=True),
    "LRN": _local,
    "MaxPool": _pool("MaxPool"),
    "ResizeBilinear": _resize(linear=True),
    "ResizeNearestNeighbor": _resize(linear=False),
    "SpaceToBatchND": _to_batch,
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "_FusedConv2D": _convolution(depthwise=False, fused=True),
    "_FusedMatMul": _fused_matmul,
}
"""By TensorFlow's names."""
