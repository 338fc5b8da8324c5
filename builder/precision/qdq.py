"""q8: static 8 bits in the form that onnxruntime calls QDQ, for WASM.

Weights are uint8 for each output channel, activations uint8 with one scale for all of a value that
calibration fixed, biases int32. `QuantizeLinear` and `DequantizeLinear` stand around convolutions
and products; the runtime makes `QLinearConv`, `QGemm` and `MatMulIntegerToFloat` of them. WebGPU
has no such kernels and would dequantize weights in every run.

Written here rather than by `onnxruntime.quantization.quantize_static`, which rounds whatever reads
or gives a rounded value too: sums of residual branches, norms, softmax. All-MiniLM-L6-v2, all with
unsigned weights for each channel and min-max ranges, no layer kept wider, mean and least cosine on
64 held-back sentences: quantize_static 0.809 and 0.529 (23.1 MB), of `MatMul` alone 0.933 and 0.764
(58.8 MB: tables stay fp32), both calibrated on 64 sentences; this module 0.993 and 0.969 (23.0 MB),
on 240. Its default, signed weights, saturates on x86 without VNNI, so a gate would measure what no
page computes (see `builder.precision.products`). What isn't in 8 bits here is stored as in
`builder.precision.int8`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.errors import ConversionError
from builder.passes.base import constant
from builder.passes.clean import RemoveUnused
from builder.precision import int8, products
from builder.precision.activations import Activations, Float
from builder.precision.correction import correct
from builder.precision.products import Plan
from builder.precision.ranges import Range
from builder.precision.rounding import LEVELS, ZERO, fits, to_int8, to_unsigned
from builder.precision.storage import Step, chain, first_input, require, weight

OPSET = 13
"""`DequantizeLinear` for each channel came with it."""

CLIPS = ("Relu", "Clip")
"""Activations that the runtime leaves to the rounding behind them, where that cuts as much."""

BIAS_MAX = 2.0**30
"""Largest magnitude of a bias in int32: sums have as much again."""

TINY = float(np.finfo(np.float32).tiny)
"""Scales below this are lost on devices that flush small numbers to 0."""


@dataclass(frozen=True)
class Layer:
    """A node whose weight and activation can be rounded.

    Attributes:
        node: `Conv`, `Gemm` or `MatMul`.
        weight: The initializer, which nothing else reads.
        array: float32 [N, ...] of a convolution, [K, N] of a product.
        result: What is rounded as well, behind a `Relu` or `Clip`: without it there is no kernel
            for a convolution; None for products, which have kernels that give floats.
    """

    node: ir.Node
    weight: ir.Value
    array: Float
    result: ir.Value | None

    @property
    def activation(self) -> ir.Value:
        """What meets the weight, as the node reads it now."""
        return first_input(self.node)

    @property
    def axis(self) -> int:
        """Of output channels."""
        return 1 if self.result is None else 0


def find(graph: ir.Graph) -> list[Layer]:
    """Convolutions, depthwise ones too, and products, in the order of the graph."""
    matrices = {product.node: product for product in products.find(graph, 0)}
    found = []
    for node in graph:
        if node in matrices:
            product = matrices[node]
            layer = Layer(node, product.value, np.asarray(product.matrix), None)
        elif (kernel := _kernel(node)) is not None:
            layer = Layer(node, *kernel, _result(node))
        else:
            continue
        if _bias_fits(layer):
            found.append(layer)
    return found


def values(graph: ir.Graph) -> frozenset[str]:
    """Names of what must be calibrated."""
    layers = find(graph)
    read = {layer.activation.name or "" for layer in layers}
    return frozenset(read | {layer.result.name or "" for layer in layers if layer.result})


def convert(
    model: ir.Model,
    activations: Activations,
    ranges: Mapping[str, Range],
    plain: Plan,
    eighths: Plan,
    *,
    wider: frozenset[str] = frozenset(),
) -> int8.Quantized:
    """Round weights and activations of a copy of an fp32 graph.

    Args:
        model: In normal form; unchanged.
        activations: Statistics of it, to correct biases by.
        ranges: Of activations, by `builder.precision.calibration.measure`.
        plain: How products are rounded that meet activations as they are.
        eighths: How products are rounded that are kept wider.
        wider: Names of weights that are computed in fp32: stored in 8 or 16 bits, as in `int8`.

    Raises:
        ConversionError: The graph's opset is too old, or it has nothing to compute in 8 bits.
    """
    require(model, OPSET, "can't round for each channel")
    copy = model.clone()
    rounding = _Rounding(copy.graph, ranges)
    names = []
    for layer in find(copy.graph):
        name = layer.weight.name or ""
        if name not in wider and rounding.usable(layer):
            rounding.layer(layer, plain, activations)
            names.append(name)
    if not names and not wider:
        raise ConversionError("graph", "it has no convolution or product to compute in 8 bits")
    biases = rounding.finish()
    RemoveUnused()(copy)  # first: the weights that were replaced need no storage
    rest = int8.store(copy, activations, eighths)
    RemoveUnused()(copy)
    said = f"{len(names)} layers computed in 8 bits, {biases} of them with a bias in 32"
    events = (int8.event("q8", said), *(replace(event, step="q8") for event in rest.events))
    return int8.Quantized(copy, tuple(names), True, events)


class _Rounding:
    """Rounds layers of one graph in place; what is rounded in front of them comes last.

    Args:
        graph: Rewritten.
        ranges: By name of value.
    """

    def __init__(self, graph: ir.Graph, ranges: Mapping[str, Range]) -> None:
        self._graph, self._ranges = graph, ranges
        self._layers: list[tuple[Layer, npt.NDArray[np.int8], Float]] = []
        self._rounded: dict[ir.Value, ir.Value] = {}

    def usable(self, layer: Layer) -> bool:
        """Whether ranges are known, and 8 bits hold the weight."""
        names = [value.name for value in (layer.activation, layer.result) if value is not None]
        if any(name not in self._ranges for name in names):
            return False
        levels, scale = to_int8(layer.array, layer.axis)
        step, _ = grid(self._ranges[names[0] or ""])
        return bool(fits(levels, layer.array) and np.all(scale * step >= TINY))

    def layer(self, layer: Layer, plain: Plan, activations: Activations) -> None:
        """Choose a weight's levels, and let the bias take what that shifts."""
        known = plain.rounded.get(layer.weight.name or "")
        if known is not None:
            self._layers.append((layer, known.levels, known.scale))
            return
        levels, scale = to_int8(layer.array, layer.axis)
        lost = layer.array - levels * _along(scale, layer)
        turned = layer.result is None and layer.node.attributes.get_int("transB", 0) == 1
        correct(layer.node, lost.T if turned else lost, activations, self._graph)
        self._layers.append((layer, levels, scale))

    def finish(self) -> int:
        """Insert the operators; how many biases are int32."""
        biases = 0
        grids = [grid(self._ranges[layer.activation.name or ""]) for layer, _, _ in self._layers]
        for layer, _, _ in self._layers:
            if layer.result is not None:
                self._everywhere(layer.result)
        for (layer, levels, scale), (step, _) in zip(self._layers, grids, strict=True):
            self._input(layer)
            biases += self._weights(layer, levels, scale, step)
        return biases

    def _everywhere(self, value: ir.Value) -> None:
        """Let all readers have a value rounded; its name goes with it."""
        name, uses = value.name or "", tuple(value.uses())
        producer = value.producer()
        if producer is None:
            raise TypeError(f"value '{name}' has no producer")
        rounded = self._round(value, producer)
        for node, index in uses:
            node.replace_input_with(index, rounded)
        for index, output in enumerate(self._graph.outputs):
            if output is value:
                self._graph.outputs[index] = rounded
        value.name, rounded.name = f"{name}_exact", name
        self._rounded[rounded] = rounded

    def _input(self, layer: Layer) -> None:
        """Let only this layer have its activation rounded: what else reads it isn't disturbed."""
        value = layer.activation
        if value not in self._rounded:
            self._rounded[value] = self._round(value, layer.node)
        layer.node.replace_input_with(0, self._rounded[value])

    def _round(self, value: ir.Value, before: ir.Node) -> ir.Value:
        name = value.name or ""
        step, zero = grid(self._ranges[name])
        pair = [
            weight(self._graph, f"{name}_step", np.array(step, np.float32)),
            weight(self._graph, f"{name}_zero_point", np.array(zero, np.uint8)),
        ]
        steps: list[Step] = [
            ("QuantizeLinear", [value, *pair], {}),
            ("DequantizeLinear", [None, *pair], {}),
        ]
        rounded = chain(self._graph, before, f"{name}_rounded", steps)
        rounded.type, rounded.shape = value.type, value.shape
        return rounded

    def _weights(
        self, layer: Layer, levels: npt.NDArray[np.int8], scale: Float, step: float
    ) -> bool:
        """Store weight and bias; whether there is a bias."""
        node, graph, name = layer.node, self._graph, layer.weight.name or ""
        bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if bias is not None:
            exact = bias.numpy().astype(np.float64).reshape(-1)
            # A bias beyond int32: a coarser weight doesn't show beside it.
            least = (np.abs(exact) / (step * BIAS_MAX)).astype(np.float32)
            if (scale < least).any():
                scale = np.maximum(scale, least)
                rounded = np.rint(layer.array / _along(scale, layer))
                levels = np.clip(rounded, -LEVELS, LEVELS).astype(np.int8)
            factor = (scale * np.float32(step)).astype(np.float32)
            whole = np.rint(exact / factor).astype(np.int32)
            given = [weight(graph, f"{name}_bias", whole), weight(graph, f"{name}_fine", factor)]
            steps: list[Step] = [("DequantizeLinear", given, {"axis": 0})]
            node.replace_input_with(2, chain(graph, node, f"{name}_bias_float", steps))
        stored = [
            weight(graph, f"{name}_uint8", to_unsigned(levels)),
            weight(graph, f"{name}_scale", scale),
            weight(graph, f"{name}_zero", np.full(scale.shape, ZERO, np.uint8)),
        ]
        steps = [("DequantizeLinear", stored, {"axis": layer.axis})]
        node.replace_input_with(1, chain(graph, node, f"{name}_float", steps))
        if "transB" in node.attributes:
            node.attributes["transB"] = ir.AttrInt64("transB", 0)
        return bias is not None


def grid(seen: Range) -> tuple[float, int]:
    """Step and zero point of the uint8 grid over a range; 0 is always on it.

    A range of nothing but 0 gets a step of 1.
    """
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    step = float(np.float32((high - low) / 255))
    if step < TINY:
        return 1.0, 0
    return step, int(np.clip(np.rint(-low / step), 0, 255))


def _along(scale: Float, layer: Layer) -> Float:
    """A scale for each channel, in the weight's rank."""
    shape = [1] * layer.array.ndim
    shape[layer.axis] = -1
    return scale.reshape(shape)


def _kernel(node: ir.Node) -> tuple[ir.Value, Float] | None:
    """The weight of a convolution."""
    if node.op_type != "Conv" or node.domain != "" or node.inputs[0] is None:
        return None
    value, tensor = node.inputs[1], constant(node.inputs[1])
    if value is None or tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    array = tensor.numpy()
    alone = len(tuple(value.uses())) == 1 and not value.is_graph_output()
    return (value, array) if alone and np.isfinite(array).all() else None


def _result(node: ir.Node) -> ir.Value:
    """What a convolution gives, after a `Relu` or `Clip` that alone reads it."""
    value = node.outputs[0]
    uses = tuple(value.uses())
    if len(uses) == 1 and not value.is_graph_output():
        reader, index = uses[0]
        if reader.op_type in CLIPS and index == 0 and reader.graph is node.graph:
            return reader.outputs[0]
    return value


def _bias_fits(layer: Layer) -> bool:
    """Whether there is no bias, or a constant one with a finite number for each channel."""
    inputs = layer.node.inputs
    if len(inputs) < 3 or inputs[2] is None:
        return True
    tensor = constant(inputs[2])
    if tensor is None or tensor.size != layer.array.shape[layer.axis]:
        return False
    flat = max(tensor.shape.numpy(), default=1) == tensor.size  # [N], or [1, N]; not [N, 1]
    last = not tensor.shape.numpy() or tensor.shape.numpy()[-1] == tensor.size
    return bool(flat and last and np.isfinite(tensor.numpy()).all())
