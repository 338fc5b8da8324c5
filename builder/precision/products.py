"""Products of activations and weights: which there are, and their two int8 forms.

Stored once, computed in two ways. For every device: the weight is dequantized while the session is
made, and multiplied in fp32. For WASM: the activation is rounded row by row and multiplied in
8 bits, which is about twice as fast there (onnxruntime-web's `MatMulIntegerToFloat`).

Weights are stored as uint8 with zero point 128. With signed weights onnxruntime's kernel for x86
without VNNI saturates at 16 bits, which WebAssembly's doesn't: then the gate would measure another
computation than the page's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from builder.model import Array
from builder.passes.base import constant
from builder.precision import smoothing
from builder.precision.activations import Activations, Float
from builder.precision.rounding import LEVELS, ZERO, fits, to_unsigned
from builder.precision.smoothing import Grid, Rounded, Smoothing
from builder.precision.storage import Step, chain, first_input, take_over, weight

FLOAT = ir.DataType.FLOAT

TINY = 1e-30
"""A row of zeros is divided by this instead of by 0."""


@dataclass(frozen=True)
class Product:
    """A node y = x W (+ b) whose weight nothing else reads.

    Attributes:
        node: `MatMul`, or `Gemm` without scaling.
        value: The stored weight: W, or its transpose.
        matrix: W, float32 [K, N].
    """

    node: ir.Node
    value: ir.Value
    matrix: Float

    @property
    def activation(self) -> ir.Value:
        """x, as the node reads it now: the product before it may have been rewritten."""
        return first_input(self.node)


@dataclass(frozen=True)
class Plan:
    """What was decided for the products of one graph.

    Attributes:
        smoothing: By name of the activation.
        rounded: By name of the weight.
        grids: What the images of 1x1 convolutions are rounded to, by name of the activation.
        multiplied: Names of the weights whose products are worth computing in 8 bits on WASM.
    """

    smoothing: dict[str, Smoothing] = field(default_factory=dict)
    rounded: dict[str, Rounded] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    multiplied: set[str] = field(default_factory=set)


def find(graph: ir.Graph, elements: int) -> list[Product]:
    """Products with weights of at least `elements` elements, in the order of the graph."""
    return [product for product in map(_product, graph) if large(product, elements)]


def large(product: Product | None, elements: int) -> TypeGuard[Product]:
    """Whether there is a product, and its weight has at least `elements` elements."""
    return product is not None and product.matrix.size >= elements


def plan(graph: ir.Graph, activations: Activations, elements: int, *, smooth: bool = True) -> Plan:
    """Choose smoothing for each activation and round every weight that it meets.

    Args:
        graph: In normal form.
        activations: Statistics of it; products without any are left out.
        elements: Smallest weight that is worth it.
        smooth: Whether activations may be changed at all before they are rounded.
    """
    groups: dict[str, list[Product]] = defaultdict(list)
    for product in find(graph, elements):
        name = product.activation.name or ""
        statistics = activations.get(name)
        if statistics is not None and statistics.gram is not None:
            groups[name].append(product)
    result = Plan()
    for name, products in groups.items():
        statistics = activations[name]
        matrices = [product.matrix for product in products]
        chosen = smoothing.none(statistics.total.size)
        if smooth:
            chosen = smoothing.choose(statistics, matrices)
        result.smoothing[name] = chosen
        for product in products:
            rounded = smoothing.round_weight(product.matrix, chosen, statistics)
            if fits(rounded.dense(chosen), product.matrix):
                result.rounded[product.value.name or ""] = rounded
                result.multiplied.add(product.value.name or "")
    return result


def dequantize(graph: ir.Graph, name: str, levels: ir.Value, scale: ir.Value) -> list[Step]:
    """Steps from a stored weight to fp32, which the runtime takes while it makes the session."""
    zero = weight(graph, f"{name}_zero", np.array(ZERO, np.float32))
    return [
        ("Cast", [levels], {"to": int(FLOAT)}),
        ("Sub", [None, zero], {}),
        ("Mul", [None, scale], {}),
    ]


def store(product: Product, rounded: Rounded, smooth: Smoothing, graph: ir.Graph) -> None:
    """Let a product read its weight from 8 bits; it computes in fp32."""
    node, name = product.node, product.value.name or ""
    levels, scale = _stored(graph, name, rounded)
    steps = dequantize(graph, name, levels, scale)
    if not (smooth.inverse == 1).all():
        inverse = weight(graph, f"{name}_smooth", smooth.inverse[:, None])
        steps.append(("Mul", [None, inverse], {}))
    if smooth.apart.size:
        places = weight(graph, f"{name}_apart", smooth.apart[:, None])
        exact = _exact(graph, name, rounded)
        steps.append(("ScatterND", [None, places, exact], {}))
    result = chain(graph, graph[0], f"{name}_dequantized", steps)
    result.type, result.shape = product.value.type, ir.Shape(product.matrix.shape)
    node.replace_input_with(1, result)
    if "transB" in node.attributes:
        node.attributes["transB"] = ir.AttrInt64("transB", 0)


class Multiplier:
    """Rewrites products of one graph to multiply in 8 bits.

    Args:
        graph: Rewritten in place.
        opset: Of the standard operators.
    """

    def __init__(self, graph: ir.Graph, opset: int) -> None:
        self._graph, self._opset = graph, opset
        self._quantized: dict[str, tuple[ir.Value, ir.Value]] = {}
        self._apart: dict[str, ir.Value] = {}
        self._shared: dict[str, ir.Value] = {}

    def multiply(self, product: Product, rounded: Rounded, smooth: Smoothing) -> None:
        """Rewrite one product; its bias, if it is a `Gemm`, is added as before."""
        node, graph = product.node, self._graph
        name = product.value.name or ""
        x, peak = self._quantize(product.activation, smooth, node)
        levels, scale = _stored(graph, name, rounded)
        zero = self._constant("zero_point_128", np.array(ZERO, np.uint8))
        step = self._constant("step_127", np.array(1 / LEVELS, np.float32))
        steps: list[Step] = [
            ("MatMulIntegerToFloat", [x, levels, step, scale, zero, zero], {}),
            ("Mul", [None, peak], {}),
        ]
        if smooth.apart.size:
            exact = _exact(graph, name, rounded)
            side = chain(
                graph,
                node,
                f"{name}_side",
                [("MatMul", [self._gather(product.activation, smooth, node), exact], {})],
            )
            steps.append(("Add", [None, side], {}))
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            steps.append(("Add", [None, bias], {}))
        result = chain(graph, node, f"{name}_product", steps)
        take_over(node.outputs[0], result, graph)

    def _quantize(
        self, value: ir.Value, smooth: Smoothing, node: ir.Node
    ) -> tuple[ir.Value, ir.Value]:
        """The activation in uint8, and the largest magnitude of each of its rows."""
        name = value.name or ""
        if name in self._quantized:
            return self._quantized[name]
        graph, smoothed = self._graph, value
        if not (smooth.inverse == 1).all():
            inverse = weight(graph, f"{name}_inverse", smooth.inverse)
            smoothed = chain(graph, node, f"{name}_smoothed", [("Mul", [value, inverse], {})])
        axes, reduced = self._last_axis()
        tiny = self._constant("tiny", np.array(TINY, np.float32))
        peak = chain(
            graph,
            node,
            f"{name}_peak",
            [
                ("Abs", [smoothed], {}),
                ("ReduceMax", [None, *axes], {**reduced, "keepdims": 1}),
                ("Max", [None, tiny], {}),
            ],
        )
        step = self._constant("step_127", np.array(1 / LEVELS, np.float32))
        zero = self._constant("zero_point_128", np.array(ZERO, np.uint8))
        quantized = chain(
            graph,
            node,
            f"{name}_quantized",
            [("Div", [smoothed, peak], {}), ("QuantizeLinear", [None, step, zero], {})],
        )
        self._quantized[name] = quantized, peak
        return quantized, peak

    def _last_axis(self) -> tuple[list[ir.Value | None], dict[str, object]]:
        """The axes of a reduction: an input from opset 18 on, an attribute before."""
        if self._opset >= 18:
            return [self._constant("last_axis", np.array([-1]))], {}
        return [], {"axes": [-1]}

    def _gather(self, value: ir.Value, smooth: Smoothing, node: ir.Node) -> ir.Value:
        """The channels of an activation that are kept apart."""
        name = value.name or ""
        if name not in self._apart:
            places = weight(self._graph, f"{name}_places", smooth.apart)
            self._apart[name] = chain(
                self._graph, node, f"{name}_apart", [("Gather", [value, places], {"axis": -1})]
            )
        return self._apart[name]

    def _constant(self, name: str, array: Array) -> ir.Value:
        if name not in self._shared:
            self._shared[name] = weight(self._graph, name, array)
        return self._shared[name]


def hasten(graph: ir.Graph) -> None:
    """Let Gelu be computed by its tanh form: 2.7 times as fast on WASM, an error of 0.0005 at most.

    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2.
    """
    for node in graph:
        exact = node.attributes.get_string("approximate", "none") == "none"
        if node.op_type == "Gelu" and (node.domain == "com.microsoft" or exact):
            node.domain, node.op_type = "com.microsoft", "FastGelu"
            node.attributes.pop("approximate", None)


def _stored(graph: ir.Graph, name: str, rounded: Rounded) -> tuple[ir.Value, ir.Value]:
    """Levels, uint8 [K, N], and scales, float32 [N]."""
    return (
        weight(graph, f"{name}_uint8", to_unsigned(rounded.levels)),
        weight(graph, f"{name}_scale", rounded.scale),
    )


def _exact(graph: ir.Graph, name: str, rounded: Rounded) -> ir.Value:
    """Rows kept apart: fp16 is as good as exact beside 8 bits."""
    half = weight(graph, f"{name}_exact_half", rounded.exact.astype(np.float16))
    return chain(graph, graph[0], f"{name}_exact", [("Cast", [half], {"to": int(FLOAT)})])


def _product(node: ir.Node) -> Product | None:
    if node.op_type not in ("MatMul", "Gemm") or node.domain != "":
        return None
    value = node.inputs[1]
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    if len(tuple(value.uses())) != 1 or len(tensor.shape) != 2 or value.is_graph_output():
        return None
    attributes = node.attributes
    scaled = any(attributes.get_float(key, 1.0) != 1.0 for key in ("alpha", "beta"))
    if node.inputs[0] is None or scaled or attributes.get_int("transA", 0) != 0:
        return None
    array = tensor.numpy()
    if not np.isfinite(array).all():
        return None
    matrix = array.T if attributes.get_int("transB", 0) else array
    return Product(node, value, matrix)
