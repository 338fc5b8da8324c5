"""uint8: products in 8 bits whose activations are rounded by what each run brings, for WASM.

`DynamicQuantizeLinear` gives all of an activation one scale and zero point, and
`MatMulIntegerToFloat` multiplies: what onnxruntime's dynamic quantization comes to, with a scale
for each output channel, weights unsigned (see `builder.precision.products`) and compensated.
Convolutions aren't computed in 8 bits: `ConvInteger` is slower than `Conv` in fp32 on WASM. They
and tables are stored as in `builder.precision.int8`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from builder.errors import ConversionError
from builder.passes.clean import RemoveUnused
from builder.precision import int8, products
from builder.precision.activations import Activations
from builder.precision.products import Plan, Product
from builder.precision.rounding import ZERO, to_unsigned
from builder.precision.storage import DOMAIN, Step, chain, require, take_over, weight

OPSET = 11
"""`DynamicQuantizeLinear` came with it."""


def convert(
    model: ir.Model,
    activations: Activations,
    plain: Plan,
    eighths: Plan,
    *,
    wider: frozenset[str] = frozenset(),
) -> int8.Quantized:
    """Multiply in 8 bits in a copy of an fp32 graph.

    Args:
        model: In normal form; unchanged.
        activations: Statistics of it, to correct biases by.
        plain: How products are rounded that meet activations as they are.
        eighths: How products are rounded that are kept wider.
        wider: Names of weights whose products are computed in fp32, stored as in `int8`.

    Raises:
        ConversionError: The graph's opset is too old, or it has no large product.
    """
    require(model, OPSET, "can't round activations")
    copy = model.clone()
    rounded: dict[str, list[ir.Value]] = {}
    names = []
    for product in products.find(copy.graph, 0):
        name = product.value.name or ""
        if name in plain.rounded and name not in wider:
            _multiply(copy.graph, product, plain, rounded)
            names.append(name)
    if not names and not wider:
        raise ConversionError("graph", "it has no product that is large enough for 8 bits")
    copy.opset_imports[DOMAIN] = 1
    RemoveUnused()(copy)  # first: the weights that were replaced need no storage
    rest = int8.store(copy, activations, eighths)
    RemoveUnused()(copy)
    said = f"{len(names)} products computed in 8 bits"
    events = (int8.event("uint8", said), *(replace(event, step="uint8") for event in rest.events))
    return int8.Quantized(copy, tuple(names), True, events)


def _multiply(
    graph: ir.Graph, product: Product, plain: Plan, rounded: dict[str, list[ir.Value]]
) -> None:
    node, name = product.node, product.value.name or ""
    source = product.activation.name or ""
    if source not in rounded:
        rounded[source] = _round(graph, product)
    x, step, zero = rounded[source]
    known = plain.rounded[name]
    levels = weight(graph, f"{name}_uint8", to_unsigned(known.levels))
    scale = weight(graph, f"{name}_scale", known.scale)
    middle = weight(graph, f"{name}_zero", np.array(ZERO, np.uint8))
    steps: list[Step] = [("MatMulIntegerToFloat", [x, levels, step, scale, zero, middle], {})]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        steps.append(("Add", [None, bias], {}))
    take_over(node.outputs[0], chain(graph, node, f"{name}_product", steps), graph)


def _round(graph: ir.Graph, product: Product) -> list[ir.Value]:
    """An activation in uint8 with its step and zero point, as this run has them."""
    name = product.activation.name or ""
    node = ir.node(
        "DynamicQuantizeLinear", [product.activation], num_outputs=3, name=f"{name}_dynamic"
    )
    kinds = (ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8)
    for value, part, kind in zip(node.outputs, ("levels", "step", "zero"), kinds, strict=True):
        value.name, value.type = f"{name}_dynamic_{part}", ir.TensorType(kind)
    graph.insert_before(product.node, node)
    return list(node.outputs)
