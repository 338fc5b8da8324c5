"""1x1 convolutions: their rounding to 8 bits, and their two int8 forms.

They are products of pixels with a matrix, stored like those of `builder.precision.products`, and
computed either in fp32, or on WASM in 8 bits. There the image is rounded to a grid for each of its
channels that calibration fixed: one pass, and images of a batch don't see each other. A channel's
step is a factor of its row of the weight, and its zero point goes into the bias, so

    y = scale * (levels @ q) * step + bias',    q = x / (factor * step) + zero,
    bias' = bias - scale * step * (levels @ zero)

The weight is the left operand, so that the image stays as it lies; one depthwise convolution does
scale, bias and activation.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx_ir as ir

from builder.passes.base import constant
from builder.precision import fused
from builder.precision.activations import Activations, Float, Statistics
from builder.precision.products import Plan, Product, dequantize, large
from builder.precision.rounding import LEVELS, ZERO, fits, to_unsigned
from builder.precision.smoothing import FLOOR, Grid, Rounded, Smoothing, round_weight
from builder.precision.storage import chain, take_over, weight

OPSET = 13
"""`QuantizeLinear` takes a scale for each channel from then on."""

POSITIONS = (49, 196)
"""Pixels of the images for which 8 bits pay. Chromium's WASM, share of the time of `Conv` and
`Clip` (channels in, out, side): 320, 1280, 7: 0.59; 1152, 192, 7: 0.65; 672, 112, 14: 0.70;
112, 672, 14: 0.75; 240, 40, 28: 0.83; 40, 240, 28: 1.14."""

TOP = 255
"""Of the levels of an image."""

MARGIN = 1.25
"""Channels may reach this multiple of what calibration saw of them before they are clipped.
EfficientNet-Lite0, median SNR of 200 crops: 1.0: 31.3 dB; 1.25: 33.5 dB; 1.75: 32.6 dB."""

ONE_SIDED = 0.2
"""Images that go less than this share as far to one side of 0 as to the other have been activated.
On EfficientNet-Lite0 channels that calibration had never seen were clipped on other photographs:
the worst of 200 crops had 11 dB, and has 23 dB with this."""

EXPONENTS = (0.0, 0.5, 0.75, 1.0)
"""Tried for how far channels are scaled to the same range; 1 gives each its own full grid."""


def find(graph: ir.Graph, elements: int) -> list[Product]:
    """1x1 convolutions with weights of at least `elements` elements, in the order of the graph.

    Their `matrix` is the weight as [C, O].
    """
    return [product for product in map(_product, graph) if large(product, elements)]


def add(known: Plan, graph: ir.Graph, activations: Activations, elements: int) -> None:
    """Choose a grid for each image and round every weight that it meets; into a plan for products.

    Args:
        known: Gets the choices.
        graph: In normal form.
        activations: Statistics of it; convolutions without any are left out.
        elements: Smallest weight that is worth it.
    """
    groups: dict[str, list[Product]] = defaultdict(list)
    for product in find(graph, elements):
        name = product.activation.name or ""
        statistics = activations.get(name)
        if statistics is not None and statistics.gram is not None and name not in known.smoothing:
            groups[name].append(product)
    for name, products in groups.items():
        statistics = activations[name]
        matrices = [product.matrix for product in products]
        smooth, grid = choose(statistics, matrices, _limits(products[0].activation))
        known.smoothing[name], known.grids[name] = smooth, grid
        for product in products:
            rounded = round_weight(product.matrix, smooth, statistics)
            if fits(rounded.dense(smooth), product.matrix):
                known.rounded[product.value.name or ""] = rounded
                if _pays(product):
                    known.multiplied.add(product.value.name or "")


def _pays(product: Product) -> bool:
    image, graph = fused.extents(product.activation), product.node.graph
    if image is None or graph is None or graph.opset_imports.get("", 1) < OPSET:
        return False
    return POSITIONS[0] <= image[0] * image[1] <= POSITIONS[1]


def _limits(value: ir.Value) -> tuple[float, float]:
    """What a value can't leave, by the `Clip` or `Relu` that gives it."""
    node = value.producer()
    if node is None or node.domain != "":
        return -np.inf, np.inf
    if node.op_type == "Relu":
        return 0.0, np.inf
    bounds = fused.bounds(node)
    return (bounds[0], bounds[1]) if bounds is not None else (-np.inf, np.inf)


def choose(
    statistics: Statistics, weights: list[Float], limits: tuple[float, float]
) -> tuple[Smoothing, Grid]:
    """The smoothing and its grid with the least error of all products of an image.

    Args:
        statistics: Of the image; its rows are what is tried on.
        weights: float32 [C, O_i] each.
        limits: What the image can't leave.
    """
    together, rows = np.concatenate(weights, axis=1), statistics.rows
    exact = rows @ together
    low, high = (np.clip(edge, *limits) for edge in _widened(statistics))
    low, high = np.minimum(low, 0), np.maximum(high, 0)  # 0 has a level of its own
    extent = np.maximum(high - low, np.float32(1e-20))
    best, least = None, np.inf
    for exponent in EXPONENTS:
        factor = (extent / np.exp(np.mean(np.log(extent)))) ** np.float32(exponent)
        smooth = Smoothing(
            (1 / factor).astype(np.float32), factor.astype(np.float32), np.zeros(0, np.int64)
        )
        step = float(np.max(extent * smooth.inverse)) / TOP
        zero = np.clip(np.rint(-low * smooth.inverse / step), 0, TOP).astype(np.uint8)
        grid = Grid(step, zero)
        error = _error(rows, together, exact, smooth, grid)
        if best is None or error < least:
            best, least = (smooth, grid), error
    if best is None:
        raise AssertionError("EXPONENTS is empty")
    return best


def _widened(statistics: Statistics) -> tuple[Float, Float]:
    """Least and largest that channels are taken to reach, 0 between them.

    Behind an activation a channel is silent until what it stands for is seen, and calibration
    doesn't see everything: there all have the range of the largest. Elsewhere one that was hardly
    seen counts as reaching a part of what others do.
    """
    low, high = np.minimum(statistics.low, 0), np.maximum(statistics.high, 0)
    smaller, larger = sorted((-float(low.min()), float(high.max())))
    if smaller <= ONE_SIDED * larger:
        low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
    low = np.minimum(low, FLOOR * np.median(low)) * np.float32(MARGIN)
    high = np.maximum(high, FLOOR * np.median(high)) * np.float32(MARGIN)
    return low.astype(np.float32), high.astype(np.float32)


def _error(rows: Float, weight: Float, exact: Float, smooth: Smoothing, grid: Grid) -> float:
    """Mean squared error of the product, both sides rounded to the nearest."""
    smoothed = weight * smooth.factor[:, None]
    scale = np.maximum(np.abs(smoothed).max(axis=0) / LEVELS, 1e-30)
    levels = np.rint(smoothed / scale)
    zero = grid.zero.astype(np.float32)
    seen = np.clip(np.rint(rows * smooth.inverse / grid.step) + zero, 0, TOP) - zero
    product = (seen @ levels) * grid.step * scale
    return float(np.mean(np.square(product - exact)))


def store(product: Product, rounded: Rounded, smooth: Smoothing, graph: ir.Graph) -> None:
    """Let a convolution read its weight from 8 bits; it computes in fp32."""
    node, name = product.node, product.value.name or ""
    inputs, outputs = product.matrix.shape
    levels, scale = _stored(graph, name, rounded)
    steps = dequantize(graph, name, levels, scale)
    if not (smooth.inverse == 1).all():
        steps.append(("Mul", [None, weight(graph, f"{name}_smooth", smooth.inverse)], {}))
    shape = np.array([outputs, inputs, 1, 1])
    steps.append(("Reshape", [None, weight(graph, f"{name}_shape", shape)], {}))
    result = chain(graph, graph[0], f"{name}_dequantized", steps)
    result.type, result.shape = product.value.type, product.value.shape
    node.replace_input_with(1, result)


def multiply(
    product: Product, rounded: Rounded, smooth: Smoothing, grid: Grid, graph: ir.Graph
) -> None:
    """Rewrite a convolution on an image of known size to multiply in 8 bits."""
    node, name = product.node, product.value.name or ""
    image = fused.extents(product.activation)
    if image is None:
        raise TypeError(f"node '{node.name}' reads an image of unknown size")
    outputs = product.matrix.shape[1]
    levels, scale = _stored(graph, name, rounded)
    lost = grid.zero.astype(np.float64) @ rounded.levels * rounded.scale * grid.step
    tensor = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    bias = (0 if tensor is None else tensor.numpy()) - lost
    known = fused.behind(node)
    inverse = weight(graph, f"{name}_smooth", smooth.inverse)
    step = weight(graph, f"{name}_step", np.array(grid.step, np.float32))
    one = weight(graph, f"{name}_one", np.array(1, np.float32))
    flat = weight(graph, f"{name}_flat", np.array([0, 0, -1]))
    each = weight(graph, f"{name}_each", np.array([outputs, 1, 1]))
    back = weight(graph, f"{name}_back", np.array([0, outputs, *image]))
    zeros = weight(graph, f"{name}_zeros", grid.zero)
    grids = chain(graph, node, f"{name}_grid", [("Div", [step, inverse], {})])
    scales = chain(graph, node, f"{name}_scales", [("Reshape", [scale, each], {})])
    zero = weight(graph, f"{name}_zero_point", np.array(ZERO, np.uint8))
    biases = weight(graph, f"{name}_bias", bias.astype(np.float32))
    attributes = {"group": outputs, "kernel_shape": [1], **known.attributes}
    result = chain(
        graph,
        node,
        f"{name}_product",
        [
            ("QuantizeLinear", [product.activation, grids, zeros], {"axis": 1}),
            ("Reshape", [None, flat], {}),
            ("MatMulIntegerToFloat", [levels, None, one, step, zero], {}),
            ("FusedConv", [None, scales, biases], attributes),
            ("Reshape", [None, back], {}),
        ],
    )
    take_over(known.output, result, graph)


def _stored(graph: ir.Graph, name: str, rounded: Rounded) -> tuple[ir.Value, ir.Value]:
    """Levels, uint8 [O, C], and scales, float32 [O, 1]."""
    return (
        weight(graph, f"{name}_uint8", to_unsigned(rounded.levels.T)),
        weight(graph, f"{name}_scale", rounded.scale[:, None]),
    )


def _product(node: ir.Node) -> Product | None:
    if node.op_type != "Conv" or node.domain != "":
        return None
    value = node.inputs[1]
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    shape = tensor.shape.numpy()
    if len(shape) != 4 or shape[2:] != (1, 1) or node.attributes.get_int("group", 1) != 1:
        return None
    if fused.window(node, (1, 1)) != (0, 0, 0, 0) or node.inputs[0] is None:
        return None
    if len(tuple(value.uses())) != 1 or value.is_graph_output():
        return None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    array = tensor.numpy()
    if not np.isfinite(array).all() or (bias is not None and constant(bias) is None):
        return None
    return Product(node, value, array.reshape(shape[0], shape[1]).T)
