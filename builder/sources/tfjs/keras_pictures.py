"""Keras's layers on pictures and sequences: convolutions, pools, padding and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from builder.model import Array
from builder.sources.tfjs import nets
from builder.sources.tfjs.layer import Layer
from builder.sources.tfjs.shaping import LAST
from builder.sources.tfjs.values import TURN, Graph, Value

Emit = Callable[[Graph, Layer, list[Value]], Value]
"""Writes what a layer computes."""


def activated(g: Graph, layer: Layer, x: Value, name: Any) -> Value:
    """An activation by its name in a configuration.

    Raises:
        UnsupportedError: There is none of this name.
    """
    key = str(name or "linear").replace("_", "").lower()
    if key not in nets.ACTIVATIONS:
        raise layer.refuse(f"its activation {name} can't be written")
    return nets.ACTIVATIONS[key](g, x)


def finished(g: Graph, layer: Layer, x: Value) -> Value:
    """The activation that a layer has at its end."""
    return activated(g, layer, x, layer.config.get("activation"))


def bias_of(layer: Layer) -> Value | None:
    """A layer's bias, if it has one."""
    return Value(array=layer.weight("bias")) if layer.config.get("use_bias", True) else None


def _pad(layer: Layer) -> str:
    kind = str(layer.config.get("padding", "valid")).upper()
    if kind not in (nets.SAME, nets.VALID):
        raise layer.refuse(f"its padding is {kind.lower()}")
    return kind


def _convolve(
    g: Graph, layer: Layer, x: Value, kernel: Array, bias: Value | None, *, depthwise: bool = False
) -> Value:
    layer.last_axis(g, x)
    return nets.convolve(
        g,
        x,
        Value(array=kernel),
        strides=layer.pair("strides"),
        dilations=layer.pair("dilation_rate"),
        pad=_pad(layer),
        depthwise=depthwise,
        bias=bias,
    )


def _conv(g: Graph, layer: Layer, x: list[Value]) -> Value:
    result = _convolve(g, layer, x[0], layer.weight("kernel"), bias_of(layer))
    return finished(g, layer, result)


def _depthwise(g: Graph, layer: Layer, x: list[Value]) -> Value:
    kernel = layer.weight("depthwise_kernel", "kernel")
    return finished(g, layer, _convolve(g, layer, x[0], kernel, bias_of(layer), depthwise=True))


def _separable(g: Graph, layer: Layer, x: list[Value]) -> Value:
    kernel = layer.weight("depthwise_kernel")
    inner = _convolve(g, layer, x[0], kernel, None, depthwise=True)
    point = Value(array=layer.weight("pointwise_kernel"))
    return finished(g, layer, nets.convolve(g, inner, point, bias=bias_of(layer)))


def _transposed(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    if layer.config.get("output_padding") or layer.pair("dilation_rate") != (1, 1):
        raise layer.refuse("it has an output padding or a dilation")
    result = nets.deconvolve(
        g,
        x[0],
        Value(array=layer.weight("kernel")),
        strides=layer.pair("strides"),
        pad=_pad(layer),
        bias=bias_of(layer),
    )
    return finished(g, layer, result)


def _flat(work: Callable[[Graph, Layer, Value], Value]) -> Emit:
    """A layer on sequences as one on pictures of height 1."""

    def emit(g: Graph, layer: Layer, x: list[Value]) -> Value:
        if layer.config.get("data_format") == "channels_first":
            raise layer.refuse("its channels aren't the last axis")
        picture = Value(g.op("Unsqueeze", g.plain(x[0]), g.constant([1])))
        result = work(g, layer, picture)
        flat = g.op("Squeeze", g.turned(result), g.constant([2]))
        return Value(g.op("Transpose", flat, perm=(0, 2, 1)))

    return emit


def _single(layer: Layer, key: str, default: Any = 1) -> list[int]:
    found = layer.config.get(key) or default
    return [int(found)] if isinstance(found, int) else [int(found[0])]


def _conv1d(g: Graph, layer: Layer, x: Value) -> Value:
    (stride,), (dilation,) = (_single(layer, key) for key in ("strides", "dilation_rate"))
    kernel = Value(array=layer.weight("kernel")[None])
    result = nets.convolve(
        g,
        x,
        kernel,
        strides=(1, stride),
        dilations=(1, dilation),
        pad=_pad(layer),
        bias=bias_of(layer),
    )
    return finished(g, layer, result)


def _pool1d(kind: str) -> Emit:
    def work(g: Graph, layer: Layer, x: Value) -> Value:
        (size,) = _single(layer, "pool_size")
        (stride,) = _single(layer, "strides", size)
        return nets.pool(g, kind, x, (1, size), (1, stride), _pad(layer))

    return _flat(work)


def _pool(kind: str) -> Emit:
    def emit(g: Graph, layer: Layer, x: list[Value]) -> Value:
        layer.last_axis(g, x[0])
        size = layer.pair("pool_size")
        strides = layer.pair("strides") if layer.config.get("strides") else size
        return nets.pool(g, kind, x[0], size, strides, _pad(layer))

    return emit


def _pairs(layer: Layer, key: str, count: int) -> list[list[int]]:
    """What is added or cut before and after each axis of a picture or sequence."""
    found = layer.config[key]
    if isinstance(found, int):
        return [[found, found]] * count
    if count == 1:
        return [[int(i) for i in found]]
    return [[pair, pair] if isinstance(pair, int) else [int(i) for i in pair] for pair in found]


def _zeros(count: int) -> Emit:
    def emit(g: Graph, layer: Layer, x: list[Value]) -> Value:
        pairs = [[0, 0], *_pairs(layer, "padding", count), [0, 0]]
        if count == 1:
            pads = g.constant([pair[side] for side in (0, 1) for pair in pairs])
            return Value(g.op("Pad", g.plain(x[0]), pads))
        layer.last_axis(g, x[0])
        pads = g.constant([pairs[axis][side] for side in (0, 1) for axis in TURN])
        return Value(turned=g.op("Pad", g.turned(x[0]), pads))

    return emit


def _crop(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    pairs = _pairs(layer, "cropping", 2)
    starts = g.constant([pair[0] for pair in pairs])
    ends = g.constant([-pair[1] if pair[1] else int(LAST) for pair in pairs])
    return Value(turned=g.op("Slice", g.turned(x[0]), starts, ends, g.constant([2, 3])))


def _upsample(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    height, width = layer.pair("size")
    scales = g.constant(np.array([1, 1, height, width], np.float32))
    linear = layer.config.get("interpolation", "nearest") == "bilinear"
    told = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    if not linear:
        told = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return Value(turned=g.op("Resize", g.turned(x[0]), "", scales, **told))


def _upsample1d(g: Graph, layer: Layer, x: list[Value]) -> Value:
    (size,) = _single(layer, "size", 2)
    scales = g.constant(np.array([1, size, 1], np.float32))
    told = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return Value(g.op("Resize", g.plain(x[0]), "", scales, **told))


LAYERS: Mapping[str, Emit] = {
    "AveragePooling1D": _pool1d("AveragePool"),
    "AveragePooling2D": _pool("AveragePool"),
    "Conv1D": _flat(_conv1d),
    "Conv2D": _conv,
    "Conv2DTranspose": _transposed,
    "Cropping2D": _crop,
    "DepthwiseConv2D": _depthwise,
    "MaxPooling1D": _pool1d("MaxPool"),
    "MaxPooling2D": _pool("MaxPool"),
    "SeparableConv2D": _separable,
    "UpSampling1D": _upsample1d,
    "UpSampling2D": _upsample,
    "ZeroPadding1D": _zeros(1),
    "ZeroPadding2D": _zeros(2),
}
"""By Keras's names."""
