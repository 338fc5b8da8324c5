"""Keras's layers, as TensorFlow.js has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from builder.sources.tfjs import keras_pictures, nets, recurrent
from builder.sources.tfjs.arithmetic import reduce
from builder.sources.tfjs.keras_pictures import Emit, bias_of, finished
from builder.sources.tfjs.layer import Layer
from builder.sources.tfjs.values import AXIS, Graph, Value, is_turned


def _dense(g: Graph, layer: Layer, x: list[Value]) -> Value:
    kernel, bias = Value(array=layer.weight("kernel")), bias_of(layer)
    if g.rank(x[0]) == 2:
        return finished(g, layer, nets.product(g, x[0], kernel, bias=bias))
    result = Value(g.op("MatMul", g.plain(x[0]), g.plain(kernel)))
    result = result if bias is None else g.elementwise("Add", result, bias)
    return finished(g, layer, result)


def _global(kind: str, axes: Sequence[int]) -> Emit:
    def emit(g: Graph, layer: Layer, x: list[Value]) -> Value:
        layer.last_axis(g, x[0])
        return reduce(g, kind, x[0], axes, keep=bool(layer.config.get("keepdims")))

    return emit


def _batch_norm(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    mean = layer.weight("moving_mean")
    scale = layer.weight("gamma") if layer.config.get("scale", True) else np.ones_like(mean)
    offset = layer.weight("beta") if layer.config.get("center", True) else np.zeros_like(mean)
    arrays = (scale, offset, mean, layer.weight("moving_variance"))
    values = [Value(array=array) for array in arrays]
    return nets.normalised(g, x[0], values, float(layer.config.get("epsilon", 1e-3)))


def _layer_norm(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    size = (g.dims(x[0]) or [None])[-1]
    found = [layer.has(name) for name in ("gamma", "beta")]
    scale = layer.weights[found[0]] if found[0] else np.ones(size or 1, np.float32)
    names = [g.constant(scale), *([g.constant(layer.weights[found[1]])] if found[1] else [])]
    epsilon = float(layer.config.get("epsilon", 1e-3))
    return Value(g.op("LayerNormalization", g.plain(x[0]), *names, axis=-1, epsilon=epsilon))


def _relu(g: Graph, layer: Layer, x: list[Value]) -> Value:
    most = layer.config.get("max_value")
    slope = layer.config.get("negative_slope") or 0.0
    if layer.config.get("threshold"):
        raise layer.refuse("it has a threshold")
    if slope:
        below = nets.leaky(g, x[0], float(slope))
        limit = Value(array=np.array(most or 0, np.float32))
        return below if most is None else g.elementwise("Min", below, limit)
    result = g.unary("Relu", x[0])
    return result if most is None else nets.clipped(g, x[0], 0, float(most))


def _leaky(g: Graph, layer: Layer, x: list[Value]) -> Value:
    alpha = layer.config.get("alpha", layer.config.get("negative_slope", 0.3))
    return nets.leaky(g, x[0], float(alpha))


def _prelu(g: Graph, layer: Layer, x: list[Value]) -> Value:
    return nets.prelu(g, x[0], Value(array=layer.weight("alpha")[None]))


def _elu(g: Graph, layer: Layer, x: list[Value]) -> Value:
    return g.unary("Elu", x[0], alpha=float(layer.config.get("alpha", 1.0)))


def _softmax(g: Graph, layer: Layer, x: list[Value]) -> Value:
    layer.last_axis(g, x[0])
    return nets.softmax(g, x[0])


def _flatten(g: Graph, layer: Layer, x: list[Value]) -> Value:
    if layer.config.get("data_format") == "channels_first":
        raise layer.refuse("its channels aren't the last axis")
    size = [dim for dim in (g.dims(x[0]) or [None])[1:] if dim is not None]
    whole = len(size) == g.rank(x[0]) - 1
    shape = [-1, int(np.prod(size))] if whole else [0, -1]
    return Value(g.reshaped(g.plain(x[0]), shape))


def _reshape(g: Graph, layer: Layer, x: list[Value]) -> Value:
    target = [int(dim) for dim in layer.config["target_shape"]]
    return Value(g.reshaped(g.plain(x[0]), [0 if -1 in target else -1, *target]))


def _permute(g: Graph, layer: Layer, x: list[Value]) -> Value:
    return Value(g.op("Transpose", g.plain(x[0]), perm=(0, *layer.config["dims"])))


def _repeat(g: Graph, layer: Layer, x: list[Value]) -> Value:
    name = g.op("Unsqueeze", g.plain(x[0]), g.constant([1]))
    return Value(g.op("Tile", name, g.constant([1, int(layer.config["n"]), 1])))


def _nothing(_g: Graph, _layer: Layer, x: list[Value]) -> Value:
    return x[0]


def _merge(kind: str) -> Emit:
    def emit(g: Graph, _layer: Layer, x: list[Value]) -> Value:
        total = x[0]
        for term in x[1:]:
            total = g.elementwise(kind, total, term)
        return total

    return emit


def _average(g: Graph, layer: Layer, x: list[Value]) -> Value:
    share = Value(array=np.array(1 / len(x), np.float32))
    return g.elementwise("Mul", _merge("Add")(g, layer, x), share)


def _concatenate(g: Graph, layer: Layer, x: list[Value]) -> Value:
    rank = g.rank(x[0])
    axis = int(layer.config.get("axis", -1)) % rank
    if rank == 4 and any(map(is_turned, x)):
        return Value(turned=g.op("Concat", *map(g.turned, x), axis=AXIS[axis]))
    return Value(g.op("Concat", *map(g.plain, x), axis=axis))


def _embedding(g: Graph, layer: Layer, x: list[Value]) -> Value:
    if layer.config.get("mask_zero"):
        raise layer.refuse("it masks zeros, which later layers would skip")
    places = g.cast_to(x[0], "int32")
    return Value(g.op("Gather", g.constant(layer.weight("embeddings")), g.plain(places), axis=0))


def _rescale(g: Graph, layer: Layer, x: list[Value]) -> Value:
    scale, offset = (
        np.asarray(layer.config.get(key, 0), np.float32) for key in ("scale", "offset")
    )
    product = g.elementwise("Mul", x[0], Value(array=scale))
    return g.elementwise("Add", product, Value(array=offset))


def _each_step(g: Graph, layer: Layer, x: list[Value]) -> Value:
    inner = layer.inner("layer")
    if inner.kind not in ("Dense", "Dropout", "Activation"):
        raise layer.refuse(f"it holds a {inner.kind}")
    return LAYERS[inner.kind](g, replace(inner, name=layer.name), x)  # the weights are called so


LAYERS: Mapping[str, Emit] = {
    **keras_pictures.LAYERS,
    "Activation": lambda g, layer, x: finished(g, layer, x[0]),
    "Add": _merge("Add"),
    "Average": _average,
    "BatchNormalization": _batch_norm,
    "Bidirectional": recurrent.bidirectional,
    "Concatenate": _concatenate,
    "Dense": _dense,
    "ELU": _elu,
    "Embedding": _embedding,
    "Flatten": _flatten,
    "GRU": recurrent.recurrent,
    "GlobalAveragePooling1D": _global("ReduceMean", [1]),
    "GlobalAveragePooling2D": _global("ReduceMean", [1, 2]),
    "GlobalMaxPooling1D": _global("ReduceMax", [1]),
    "GlobalMaxPooling2D": _global("ReduceMax", [1, 2]),
    "LSTM": recurrent.recurrent,
    "LayerNormalization": _layer_norm,
    "LeakyReLU": _leaky,
    "Maximum": _merge("Max"),
    "Minimum": _merge("Min"),
    "Multiply": _merge("Mul"),
    "PReLU": _prelu,
    "Permute": _permute,
    "ReLU": _relu,
    "RepeatVector": _repeat,
    "Rescaling": _rescale,
    "Reshape": _reshape,
    "SimpleRNN": recurrent.recurrent,
    "Softmax": _softmax,
    "Subtract": _merge("Sub"),
    "TimeDistributed": _each_step,
    **dict.fromkeys(
        (
            "AlphaDropout",
            "Dropout",
            "GaussianDropout",
            "GaussianNoise",
            "SpatialDropout1D",
            "SpatialDropout2D",
            "ActivityRegularization",
        ),
        _nothing,
    ),
}
"""By Keras's names."""
