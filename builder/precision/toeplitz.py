"""Depthwise convolutions on small images as banded filters over the whole width: exact, for WASM.

onnxruntime-web computes a depthwise convolution as one product of a single row for each channel,
and rearranges the image for each of the k * k taps. With filters T [C * W', 1, k, W],

    T[c * W' + j, 0, r, i] = w[c, 0, r, i - j + left]    (0 where there is no such tap),

one channel is a product of W' rows, and rows of the image are taken as they lie. Most of what is
multiplied then is 0, and it is faster all the same: see `WIDEST`. The result comes with height and
width exchanged.

T is made of w by operators that the runtime folds while it makes the session, so nothing more is
downloaded. It has to be a `FusedConv` behind a `Pad`: padding of its own costs all of the gain, and
into a `Conv` the runtime would merge the `Pad`.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from builder.passes.clean import RemoveUnused
from builder.precision import fused
from builder.precision.storage import DOMAIN, chain, take_over, weight

WIDEST = {3: 7, 5: 14}
"""By width of the filter, the widest image for which it pays. Chromium's WASM, share of the time of
`Conv` and `Clip` (channels, filter, image): 1152, 5, 7: 0.36; 672, 5, 14: 0.56; 1152, 3, 7: 0.75;
480, 3, 14: 0.87. With stride 2 (672, 5, 14 to 7) it takes 1.4 times as long."""

OPSET = 11
"""`Pad` takes its padding as an input from then on."""


def widen(model: ir.Model) -> int:
    """Rewrite what pays in the main graph, in place; how many convolutions there were."""
    graph = model.graph
    if model.opset_imports.get("", 1) < OPSET:
        return 0
    shared: dict[tuple[int, ...], ir.Value] = {}
    found = [(node, pads) for node in graph if (pads := _padding(node)) is not None]
    for node, pads in found:
        _rewrite(graph, node, pads, shared)
    if found:
        model.opset_imports[DOMAIN] = 1
        RemoveUnused()(model)
    return len(found)


def _padding(node: ir.Node) -> tuple[int, int, int, int] | None:
    """Top, left, bottom, right of a convolution that is rewritten; None for any other node."""
    if node.op_type != "Conv" or node.domain != "":
        return None
    value, image = node.inputs[1], fused.extents(node.inputs[0])
    shape = value.shape if value is not None else None
    if image is None or shape is None or len(shape) != 4 or not shape.is_static():
        return None
    outputs, inputs, height, width = (int(extent) for extent in shape.numpy())
    if inputs != 1 or node.attributes.get_int("group", 1) != outputs:
        return None
    if image[1] > WIDEST.get(width, 0):
        return None
    return fused.window(node, (height, width))


def _rewrite(
    graph: ir.Graph,
    node: ir.Node,
    pads: tuple[int, int, int, int],
    shared: dict[tuple[int, ...], ir.Value],
) -> None:
    (top, left, bottom, right), known = pads, fused.behind(node)
    x, value = node.inputs[0], node.inputs[1]
    image = fused.extents(x)
    if value is None or value.shape is None or image is None:
        raise TypeError(f"node '{node.name}' is no depthwise convolution of known extents")
    channels, _, taps, across = (int(extent) for extent in value.shape.numpy())
    width = image[1]
    result = width + left + right - across + 1
    name = node.outputs[0].name or ""

    def numbers(*content: int) -> ir.Value:
        if content not in shared:
            label = "toeplitz_" + "_".join(map(str, content[:8]))
            shared[content] = weight(graph, label, np.array(content, np.int64))
        return shared[content]

    # Which tap stands at column i of row j; `across` is the column of zeros behind the last one.
    places = np.arange(width)[None, :] - np.arange(result)[:, None] + left
    places = np.where((places >= 0) & (places < across), places, across)
    key = (-1, width, result, left, across)
    if key not in shared:
        shared[key] = weight(graph, f"{name}_band", places)
    filters = chain(
        graph,
        node,
        f"{name}_filters",
        [
            ("Pad", [value, numbers(0, 0, 0, 0, 0, 0, 0, 1)], {}),
            ("Gather", [None, shared[key]], {"axis": 3}),
            ("Transpose", [None], {"perm": [0, 3, 1, 2, 4]}),
            ("Reshape", [None, numbers(channels * result, 1, taps, width)], {}),
        ],
    )
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        bias = chain(
            graph,
            node,
            f"{name}_biases",
            [
                ("Reshape", [bias, numbers(channels, 1)], {}),
                ("Expand", [None, numbers(channels, result)], {}),
                ("Reshape", [None, numbers(-1)], {}),
            ],
        )
    if top or bottom:
        x = chain(
            graph, node, f"{name}_pad", [("Pad", [x, numbers(0, 0, top, 0, 0, 0, bottom, 0)], {})]
        )
    attributes = {"group": channels, "kernel_shape": [taps, width], **known.attributes}
    inputs = [x, filters] if bias is None else [x, filters, bias]
    wide = chain(
        graph,
        node,
        f"{name}_wide",
        [
            ("FusedConv", inputs, attributes),
            ("Reshape", [None, numbers(0, channels, result, -1)], {}),
            ("Transpose", [None], {"perm": [0, 1, 3, 2]}),
        ],
    )
    take_over(known.output, wide, graph)
