"""What neural networks for pictures are made of, for graphs and for layers alike.

Tensors of pictures have channels last in TensorFlow: [batch, height, width, channels].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from builder.sources.tfjs.values import Graph, Value, is_turned

Pair = tuple[int, int]

SAME, VALID = "SAME", "VALID"

TAKES_BIAS = ("Conv", "ConvTranspose")


def padding(
    g: Graph, x: Value, kind: str, size: Sequence[int], strides: Sequence[int], dilations: Pair
) -> dict[str, Any]:
    """Attributes that pad a picture as TensorFlow does: what is odd goes below and to the right.

    Only where neither the picture's size nor a stride of 1 says how much, it is left to the
    runtime.
    """
    if kind == VALID:
        return {}
    before, after = [], []
    for extent, k, s, d in zip(
        (g.dims(x) or [None] * 4)[1:3], size, strides, dilations, strict=True
    ):
        covered = (k - 1) * d + 1
        if extent is None and s > 1:
            return {"auto_pad": "SAME_UPPER"}
        total = (
            covered - 1 if extent is None else (math.ceil(extent / s) - 1) * s + covered - extent
        )
        before.append(max(total, 0) // 2)
        after.append(max(total, 0) - max(total, 0) // 2)
    return {"pads": [*before, *after]}


def convolve(
    g: Graph,
    x: Value,
    kernel: Value,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pad: str | Sequence[int] = VALID,
    depthwise: bool = False,
    bias: Value | None = None,
) -> Value:
    """A convolution.

    Args:
        g: The graph.
        x: [batch, height, width, channels].
        kernel: [height, width, channels, filters]; depthwise, filters are for each channel.
        strides: Down and across.
        dilations: Down and across.
        pad: SAME, VALID, or the explicit padding as ONNX has it.
        depthwise: Whether each channel has filters of its own.
        bias: [filters].
    """
    height, width, channels, count = _whole(g, kernel)
    shape = [channels * count, 1, height, width]
    if kernel.array is not None:
        array = kernel.array.transpose((2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
        weight = g.constant(np.ascontiguousarray(array.reshape(shape) if depthwise else array))
    else:
        weight = g.op(
            "Transpose", g.plain(kernel), perm=(2, 3, 0, 1) if depthwise else (3, 2, 0, 1)
        )
        weight = g.reshaped(weight, shape) if depthwise else weight
    known = g.dims(x)
    groups = channels if depthwise else 1
    if not depthwise and known is not None and known[3] not in (None, channels):
        groups = int(known[3] or channels) // channels
    pads: dict[str, Any] = {"pads": list(pad)} if not isinstance(pad, str) else {}
    if isinstance(pad, str):
        pads = padding(g, x, pad, (height, width), strides, dilations)
    result = g.op(
        "Conv",
        g.turned(x),
        weight,
        *([] if bias is None else [g.plain(bias)]),
        kernel_shape=(height, width),
        strides=strides,
        dilations=dilations,
        group=groups,
        **pads,
    )
    return Value(turned=result)


def deconvolve(
    g: Graph,
    x: Value,
    kernel: Value,
    *,
    strides: Pair,
    pad: str,
    size: Sequence[int | None] = (None, None),
    bias: Value | None = None,
) -> Value:
    """What a convolution's gradient does: makes a picture larger by its strides.

    Args:
        g: The graph.
        x: [batch, height, width, channels].
        kernel: [height, width, filters, channels].
        strides: Down and across.
        pad: SAME or VALID.
        size: Height and width of the result, where it says so; else as Keras has it.
        bias: [filters].
    """
    height, width, _, _ = _whole(g, kernel)
    before, after, more = [], [], []
    extents = (g.dims(x) or [None] * 4)[1:3]
    for extent, k, s, wanted in zip(extents, (height, width), strides, size, strict=True):
        least = max(k - s, 0) if pad == SAME else 0
        total, extra = least, max(s - k, 0)
        if extent is not None and wanted is not None:
            natural = (extent - 1) * s + k
            total = max(natural - wanted, 0) if pad == SAME else 0
            extra = wanted - natural + total
        before.append(total // 2)
        after.append(total - total // 2)
        more.append(extra)
    if kernel.array is not None:
        weight = g.constant(np.ascontiguousarray(kernel.array.transpose(3, 2, 0, 1)))
    else:
        weight = g.op("Transpose", g.plain(kernel), perm=(3, 2, 0, 1))
    result = g.op(
        "ConvTranspose",
        g.turned(x),
        weight,
        *([] if bias is None else [g.plain(bias)]),
        kernel_shape=(height, width),
        strides=strides,
        pads=[*before, *after],
        output_padding=more,
    )
    return Value(turned=result)


def _whole(g: Graph, kernel: Value) -> list[int]:
    dims = g.dims(kernel)
    if dims is None or len(dims) != 4 or None in dims:
        raise g.refuse("its kernel has no fixed shape of four axes")
    return [int(dim or 0) for dim in dims]


def pool(g: Graph, kind: str, x: Value, size: Pair, strides: Pair, pad: str) -> Value:
    """`MaxPool` or `AveragePool`; padding doesn't count in an average."""
    pads = padding(g, x, pad, size, strides, (1, 1))
    return Value(turned=g.op(kind, g.turned(x), kernel_shape=size, strides=strides, **pads))


def biased(g: Graph, x: Value, bias: Value) -> Value:
    """A sum along the channels; a convolution just before it takes the bias in."""
    node = g.producer(x.turned) if is_turned(x) and bias.array is not None else None
    if node is not None and node.op_type in TAKES_BIAS and len(node.input) == 2 and x.readers == 1:
        node.input.append(g.plain(bias))
        return x
    return g.elementwise("Add", x, bias)


def normalised(g: Graph, x: Value, moments: Sequence[Value], epsilon: float) -> Value:
    """Batch normalisation along the last axis of any tensor.

    Args:
        g: The graph.
        x: Channels last.
        moments: Scale, offset, mean and variance, each [channels].
        epsilon: Added to the variance.
    """
    if g.rank(x) == 4:
        names = [g.plain(value) for value in moments]
        result = g.op("BatchNormalization", g.turned(x), *names, epsilon=epsilon)
        return Value(turned=result)
    if any(value.array is None for value in moments):
        raise g.refuse("its moments aren't constant")
    gamma, beta, middle, spread = (np.asarray(value.array, np.float64) for value in moments)
    factor = gamma / np.sqrt(spread + epsilon)
    term = Value(array=(beta - middle * factor).astype(np.float32))
    product = g.elementwise("Mul", x, Value(array=factor.astype(np.float32)))
    return g.elementwise("Add", product, term)


def resized(
    g: Graph, x: Value, size: Sequence[int], *, linear: bool, corners: bool, halves: bool
) -> Value:
    """A picture of another height and width, interpolated linearly or from the nearest pixel."""
    name = g.turned(x)
    mode = "align_corners" if corners else "half_pixel" if halves else "asymmetric"
    attributes: dict[str, Any] = {
        "mode": "linear" if linear else "nearest",
        "coordinate_transformation_mode": mode,
    }
    if not linear:
        attributes["nearest_mode"] = "round_prefer_ceil" if corners or halves else "floor"
    scales = [_exact(n, m) for n, m in zip(size, (g.dims(x) or [None] * 4)[1:3], strict=True)]
    if None not in scales:
        factors = g.constant(np.array([1, 1, *(s or 1 for s in scales)], np.float32))
        return Value(turned=g.op("Resize", name, "", factors, **attributes))
    outer = g.op("Shape", name, start=0, end=2)
    sizes = g.op("Concat", outer, g.constant(list(size)), axis=0)
    result = g.op("Resize", name, "", "", sizes, **attributes)
    dims = g.shape_of(name) or [None] * 4
    kind = g.types[name].tensor_type.elem_type
    g.types[result] = onnx.helper.make_tensor_type_proto(kind, [*dims[:2], *size])
    return Value(turned=result)


def _exact(new: int, old: int | None) -> float | None:
    """The scale between two extents, if no rounding of it can miss the new one."""
    if old is None or (new % old and (old % new or math.log2(old // new) % 1)):
        return None
    return new / old


def _activate(kind: str, **attributes: Any) -> Callable[[Graph, Value], Value]:
    return lambda g, x: g.unary(kind, x, **attributes)


def clipped(g: Graph, x: Value, least: float, most: float) -> Value:
    """Values kept between two limits."""
    return g.unary("Clip", x, g.floats(x, least), g.floats(x, most))


def softmax(g: Graph, x: Value, kind: str = "Softmax") -> Value:
    """Along the last axis, which is the second where channels are."""
    if is_turned(x):
        return Value(turned=g.op(kind, x.turned, axis=1))
    return Value(g.op(kind, g.plain(x), axis=-1))


def _swish(g: Graph, x: Value) -> Value:
    return g.elementwise("Mul", x, g.unary("Sigmoid", x))


def _gelu(g: Graph, x: Value) -> Value:
    half = Value(array=np.array(0.5, np.float32))
    one = Value(array=np.array(1.0, np.float32))
    root = Value(array=np.array(math.sqrt(2), np.float32))
    inner = g.elementwise("Add", g.unary("Erf", g.elementwise("Div", x, root)), one)
    return g.elementwise("Mul", g.elementwise("Mul", x, inner), half)


ACTIVATIONS: Mapping[str, Callable[[Graph, Value], Value]] = {
    "linear": lambda _g, x: x,
    "relu": _activate("Relu"),
    "relu6": lambda g, x: clipped(g, x, 0, 6),
    "elu": _activate("Elu"),
    "selu": _activate("Selu"),
    "sigmoid": _activate("Sigmoid"),
    "tanh": _activate("Tanh"),
    "softplus": _activate("Softplus"),
    "softsign": _activate("Softsign"),
    "exponential": _activate("Exp"),
    "hardsigmoid": _activate("HardSigmoid", alpha=0.2, beta=0.5),
    "softmax": softmax,
    "logsoftmax": lambda g, x: softmax(g, x, "LogSoftmax"),
    "swish": _swish,
    "silu": _swish,
    "gelu": _gelu,
    "mish": lambda g, x: g.elementwise("Mul", x, g.unary("Tanh", g.unary("Softplus", x))),
}
"""By their names in lower case without underscores."""


def leaky(g: Graph, x: Value, alpha: float) -> Value:
    """ReLU with a slope below zero."""
    return g.unary("LeakyRelu", x, alpha=alpha)


def prelu(g: Graph, x: Value, slope: Value) -> Value:
    """ReLU with slopes of its own for each channel, or whatever broadcasts."""
    return g.elementwise("PRelu", x, slope)


def product(
    g: Graph,
    left: Value,
    right: Value,
    *,
    turn_left: bool = False,
    turn_right: bool = False,
    bias: Value | None = None,
) -> Value:
    """A product of two matrices, and a sum."""
    names = [g.plain(left), g.plain(right), *([] if bias is None else [g.plain(bias)])]
    return Value(g.op("Gemm", *names, transA=int(turn_left), transB=int(turn_right)))
