"""Weights in `Constant` nodes or in subgraphs become initializers of the main graph."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from builder.passes.base import Pass, is_edge, nodes_of

LIFT_BYTES = 1024
"""Weights below this stay in their subgraph: shape inference looks for axes and shapes there."""


class LiftConstants(Pass):
    """Turn `Constant` nodes of every kind into initializers of the graph they stand in.

    A constant that is itself a graph output stays: an initializer as output is legal, but several
    tools (and some runtimes) overlook it.
    """

    step = "lift constants"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Lift; strings first become `value` tensors. (onnx_ir doesn't read `sparse_value`.)"""
        for node in nodes_of(model):
            if node.op_type == "Constant" and node.domain == "":
                _densify(node)
        lift = common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
        return lift(model)


class LiftSubgraphWeights(Pass):
    """Move initializers of subgraphs that are large enough to matter into the main graph.

    There they are seen once by deduplication, quantizers and sharding. Names must be unique across
    the whole model before (`NameEverything`).
    """

    step = "lift weights out of subgraphs"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move them; their readers see outer values anyway."""
        modified = False
        for graph in model.graphs():
            if graph is model.graph:
                continue
            for name, value in tuple(graph.initializers.items()):
                tensor = value.const_value
                if tensor is None or is_edge(value) or tensor.nbytes < LIFT_BYTES:
                    continue
                del graph.initializers[name]
                model.graph.register_initializer(value)
                modified = True
        return ir.passes.PassResult(model, modified)


def _densify(node: ir.Node) -> None:
    """Rewrite the attribute kinds that onnx_ir's pass doesn't lift, or lifts wrong, as `value`."""
    for name, attr in tuple(node.attributes.items()):
        if attr.is_ref():
            continue
        if name == "value_string":
            tensor = ir.StringTensor(
                np.array(attr.as_string().encode(), object), shape=ir.Shape([])
            )
        elif name == "value_strings":
            strings = [text.encode() for text in attr.as_strings()]
            tensor = ir.StringTensor(np.array(strings, object), shape=ir.Shape([len(strings)]))
        else:
            continue
        del node.attributes[name]
        node.attributes["value"] = ir.Attr("value", ir.AttributeType.TENSOR, tensor)
