"""1x1 convolutions on tiny images as products with a constant on the right: exact, for WASM.

onnxruntime-web pads the columns of a product to 16, and the columns of a convolution are pixels;
the weight on the right is also rearranged once, while the session is made, instead of in each run.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from builder.passes.clean import RemoveUnused
from builder.precision import fused
from builder.precision.storage import DOMAIN, Step, chain, take_over, weight

PIXELS = 49
"""Of the largest image for which it pays. Chromium's WASM, share of the time of the convolution
(channels in, out, side): 960, 1280, 1: 0.25; 576, 160, 7: 0.75; 1152, 192, 7: 0.84;
192, 1152, 7: 0.88; 672, 112, 14: 1.00; 80, 480, 14: 1.08."""

ELEMENTS = 4096
"""Of the smallest weight: below, four more nodes cost more than the product."""


def flatten(model: ir.Model) -> int:
    """Rewrite what pays in the main graph, in place; how many convolutions there were."""
    graph = model.graph
    found = [node for node in graph if _fits(node)]
    for node in found:
        _rewrite(graph, node)
    if found:
        model.opset_imports[DOMAIN] = 1
        RemoveUnused()(model)
    return len(found)


def _fits(node: ir.Node) -> bool:
    if node.op_type != "Conv" or node.domain != "" or node.attributes.get_int("group", 1) != 1:
        return False
    value, image = node.inputs[1], fused.extents(node.inputs[0])
    shape = value.shape if value is not None else None
    if image is None or shape is None or len(shape) != 4 or not shape.is_static():
        return False
    # A weight that the run makes would have to be turned in each run.
    if not _is_folded(value):
        return False
    outputs, inputs, *sides = (int(extent) for extent in shape.numpy())
    if outputs * inputs < ELEMENTS or image[0] * image[1] > PIXELS:
        return False
    return sides == [1, 1] and fused.window(node, (1, 1)) == (0, 0, 0, 0)


def _is_folded(value: ir.Value | None) -> bool:
    """Whether a value is a weight, or made of weights alone."""
    if value is None or value.is_initializer():
        return value is not None and not value.is_graph_input()
    producer = value.producer()
    return producer is not None and all(
        _is_folded(source) for source in producer.inputs if source is not None
    )


def _rewrite(graph: ir.Graph, node: ir.Node) -> None:
    image, value = fused.extents(node.inputs[0]), node.inputs[1]
    if image is None or value is None or value.shape is None:
        raise TypeError(f"node '{node.name}' is no convolution of known extents")
    outputs, inputs, *_ = (int(extent) for extent in value.shape.numpy())
    name = node.outputs[0].name or ""
    right = chain(
        graph,
        node,
        f"{name}_right",
        [
            ("Reshape", [value, weight(graph, f"{name}_matrix", np.array([outputs, inputs]))], {}),
            ("Transpose", [None], {"perm": [1, 0]}),
        ],
    )
    steps: list[Step] = [
        ("Reshape", [node.inputs[0], weight(graph, f"{name}_flat", np.array([0, 0, -1]))], {}),
        ("FusedMatMul", [None, right], {"transA": 1}),
    ]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        steps.append(("Add", [None, bias], {}))
    back = weight(graph, f"{name}_back", np.array([0, outputs, *image]))
    steps += [("Transpose", [None], {"perm": [0, 2, 1]}), ("Reshape", [None, back], {})]
    take_over(node.outputs[0], chain(graph, node, f"{name}_product", steps), graph)
