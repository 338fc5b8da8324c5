"""int4: products and tables in blocks of 4 bits, everything else as in int8.

Stock tools quantize `MatMul` with a two-dimensional constant and leave the rest in fp32 without a
word. Here `Gemm`, a product with a transposed table, stacks of matrices and tables that are looked
up or tied are covered too. A product becomes `MatMulNBits`, which both backends multiply from 4
bits; for tables see `builder.precision.tables`. Scales are stored in fp16 and cast while the
session is made, so that compute in fp32 and in fp16 shares every byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from builder.errors import ConversionError
from builder.passes.base import constant
from builder.passes.clean import RemoveUnused
from builder.precision import int8, products
from builder.precision.activations import Activations, Float, Statistics
from builder.precision.blocks import BLOCK, Blocks, round_blocks
from builder.precision.rounding import fits
from builder.precision.storage import (
    DOMAIN,
    Step,
    chain,
    float_weights,
    replace,
    require,
    take_over,
    weight,
)
from builder.precision.tables import Parts, is_lookup, look_up_blocks, unpack

Kind = Literal["product", "table", "tied", "stack"]

OPSET = 13
"""`Unsqueeze` takes its axes as an input from then on."""

ELEMENTS = 16_384
"""Weights from this size on are rounded to 4 bits."""


@dataclass(frozen=True)
class Layer:
    """A weight that goes into 4 bits.

    Attributes:
        name: Of the weight.
        kind: `product`: y = x W, read by one node; `table`: rows that are looked up; `tied`: a
            table that is multiplied with too; `stack`: a stack of matrices, [batch…, K, N].
        matrix: What is rounded, float32 [K, N]: rows of a table are its columns here.
        statistics: Of what it is multiplied with, if that is known.
    """

    name: str
    kind: Kind
    matrix: Float
    statistics: Statistics | None


def find(graph: ir.Graph, activations: Activations) -> list[Layer]:
    """Weights that can go into 4 bits, in the order of the graph's initializers."""
    matrices = {p.value.name or "": p for p in products.find(graph, ELEMENTS)}
    found = []
    for value in float_weights(graph):
        name, tensor = value.name or "", constant(value)
        if tensor is None or tensor.size < ELEMENTS:
            continue
        product = matrices.get(name)
        if product is not None:
            known = activations.get(product.activation.name or "")
            found.append(Layer(name, "product", product.matrix, known))
            continue
        array = np.asarray(tensor.numpy(), np.float32)
        kind = _kind(value, array)
        if kind is None or not np.isfinite(array).all():
            continue
        # Rows of a table and columns of the last two axes of a stack are what is cut into blocks.
        rows = array if kind != "stack" else array.swapaxes(-1, -2)
        matrix = np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]).T)
        found.append(Layer(name, kind, matrix, _tied_statistics(value, activations)))
    return found


def plan(graph: ir.Graph, activations: Activations) -> dict[str, Blocks]:
    """Round every weight that can go into 4 bits, by name."""
    rounded = {}
    for layer in find(graph, activations):
        known = layer.statistics
        gram = known.gram if known is not None else None
        importance = None
        if gram is not None and known is not None:
            importance = (np.diag(gram) / max(known.count, 1)).astype(np.float32)
        # A table's rows are used as they are: errors of one input can't be given back by others.
        compensating = gram if layer.kind == "product" else None
        blocks = round_blocks(layer.matrix, compensating, importance)
        if fits(blocks.dense, layer.matrix):
            rounded[layer.name] = blocks
    return rounded


def convert(
    model: ir.Model,
    activations: Activations,
    eighths: products.Plan,
    quarters: dict[str, Blocks],
    *,
    wider: frozenset[str] = frozenset(),
    tables: bool = False,
) -> int8.Quantized:
    """Store the weights of a copy of an fp32 graph in 4 bits where that can be, else in 8 or 16.

    Args:
        model: In normal form; unchanged.
        activations: Statistics of it, to correct biases by.
        eighths: How its products are rounded to 8 bits, for those that are kept wider.
        quarters: By `plan`.
        wider: Names of weights that are stored in 8 bits instead.
        tables: Whether tables that are looked up only go into 4 bits as well.

    Raises:
        ConversionError: The graph's opset is too old, or nothing goes into 4 bits.
    """
    require(model, OPSET, "can't unpack 4 bits")
    copy = model.clone()
    graph = copy.graph
    layers = []
    for layer in find(graph, activations):
        blocks = quarters.get(layer.name)
        if blocks is None or layer.name in wider or (layer.kind == "table" and not tables):
            continue
        _STORE[layer.kind](graph, graph.initializers[layer.name], blocks)
        layers.append(layer.name)
    if not layers and not wider:
        raise ConversionError(
            "graph", "it has no product or tied table that is large enough for 4 bits"
        )
    copy.opset_imports[DOMAIN] = 1
    rest = int8.store(copy, activations, eighths)
    RemoveUnused()(copy)
    counted = f"{len(layers)} weights in blocks of 4 bits"
    return int8.Quantized(copy, tuple(layers), False, (int8.event("q4", counted), *rest.events))


def _kind(value: ir.Value, array: Float) -> Kind | None:
    """What a weight that isn't a product's own is; None if it has no place in 4 bits."""
    uses = [(node, index) for node, index in value.uses() if node.domain == ""]
    if len(uses) != len(tuple(value.uses())) or any(n.graph is not value.graph for n, _ in uses):
        return None
    looked_up = [is_lookup(node, index) for node, index in uses]
    turned = [_turned_product(node, index) is not None for node, index in uses]
    if array.ndim == 2 and all(a or b for a, b in zip(looked_up, turned, strict=True)):
        return "tied" if any(turned) else "table"
    stacked = [node.op_type == "MatMul" and index == 1 for node, index in uses]
    return "stack" if array.ndim > 2 and all(stacked) else None


def _turned_product(node: ir.Node, index: int) -> ir.Node | None:
    """The product with a transposed table, if that is how a node reads it.

    Either `Transpose` and `MatMul`, or a `Gemm` with `transB`.
    """
    if node.op_type == "Gemm" and index == 1 and node.attributes.get_int("transB", 0) == 1:
        plain = all(node.attributes.get_float(key, 1.0) == 1.0 for key in ("alpha", "beta"))
        return node if plain and node.attributes.get_int("transA", 0) == 0 else None
    if node.op_type != "Transpose" or list(node.attributes.get_ints("perm", (1, 0))) != [1, 0]:
        return None
    uses = tuple(node.outputs[0].uses())
    if len(uses) != 1 or node.outputs[0].is_graph_output():
        return None
    reader, position = uses[0]
    return reader if reader.op_type == "MatMul" and position == 1 else None


def _tied_statistics(value: ir.Value, activations: Activations) -> Statistics | None:
    for node, index in value.uses():
        product = _turned_product(node, index)
        source = product.inputs[0] if product is not None else None
        if source is not None:
            return activations.get(source.name or "")
    return None


def _multiply(graph: ir.Graph, node: ir.Node, parts: Parts, blocks: Blocks) -> None:
    """Turn a product into `MatMulNBits`, with the bias of a `Gemm` added behind it."""
    name = node.outputs[0].name or ""
    outputs = len(blocks.scales)
    attributes = {"K": blocks.inputs, "N": outputs, "bits": 4, "block_size": BLOCK}
    inputs = [node.inputs[0], parts.levels, parts.scales, parts.zeros]
    steps: list[Step] = [("MatMulNBits", inputs, attributes)]
    bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    if bias is not None:
        steps.append(("Add", [None, bias], {}))
    take_over(node.outputs[0], chain(graph, node, f"{name}_product", steps), graph)


def _store_product(graph: ir.Graph, value: ir.Value, blocks: Blocks) -> None:
    ((node, _),) = tuple(value.uses())
    _multiply(graph, node, Parts(graph, value.name or "", blocks), blocks)
    del graph.initializers[value.name or ""]


def _store_table(graph: ir.Graph, value: ir.Value, blocks: Blocks) -> None:
    """Look rows up in 4 bits; where it is tied, multiply from the very same bytes."""
    parts = Parts(graph, value.name or "", blocks)
    for node, index in tuple(value.uses()):
        product = _turned_product(node, index)
        if product is not None:
            _multiply(graph, product, parts, blocks)
            continue
        indices = node.inputs[1]
        rank = len(indices.shape) if indices is not None and indices.shape is not None else 0
        take_over(node.outputs[0], look_up_blocks(node, parts, blocks, rank), graph)
    for node, _ in tuple(value.uses()):  # transpositions whose product is gone
        graph.remove(node, safe=True)
    del graph.initializers[value.name or ""]


def _store_stack(graph: ir.Graph, value: ir.Value, blocks: Blocks) -> None:
    """Undo a stack of matrices while the session is made: no product takes them from 4 bits."""
    name, shape = value.name or "", value.shape.numpy() if value.shape is not None else ()
    parts = Parts(graph, name, blocks)
    rows = unpack(graph[-1], name, [parts.flat(graph), parts.scales, parts.zeros], blocks, 1)
    turned = weight(graph, f"{name}_shape", np.array([*shape[:-2], shape[-1], shape[-2]]))
    axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    replace(value, [("Reshape", [rows, turned], {}), ("Transpose", [None], {"perm": axes})], graph)


_STORE: dict[Kind, Callable[[ir.Graph, ir.Value, Blocks], None]] = {
    "product": _store_product,
    "table": _store_table,
    "tied": _store_table,
    "stack": _store_stack,
}
