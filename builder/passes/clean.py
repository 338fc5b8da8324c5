"""Take out what no reader needs: dead nodes, weights among the inputs, exporters' notes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from builder.passes.base import Pass, constant, nodes_of


class InlineFunctions(Pass):
    """Replace calls of model-local functions by their bodies, so that tables see operators."""

    step = "inline functions"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline all, then forget the functions."""
        if not model.functions:
            return ir.passes.PassResult(model, False)
        common.InlinePass()(model)
        model.functions.clear()
        return ir.passes.PassResult(model, True)


class UnlistWeights(Pass):
    """Take initializers out of the list of graph inputs, where IR version 3 wants them.

    Listed there a caller could override them, so no runtime may fold them.
    """

    step = "take weights out of the inputs"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Only the main graph: a subgraph's inputs are given by its node."""
        graph = model.graph
        kept = [value for value in graph.inputs if not value.is_initializer()]
        removed = len(graph.inputs) - len(kept)
        if removed:
            graph.inputs.clear()
            graph.inputs.extend(kept)
        return ir.passes.PassResult(model, removed > 0)


class RemoveUnused(Pass):
    """Remove nodes and weights without readers, and unused opset imports; inputs all stay."""

    step = "remove unused nodes"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """By onnx_ir's passes, and the weights of subgraphs, which they leave."""
        modified = common.RemoveUnusedNodesPass()(model).modified
        # Branches of removed nodes still count among `uses()`, so living readers are counted here.
        read = {value for node in nodes_of(model) for value in node.inputs if value is not None}
        for graph in model.graphs():
            read.update(graph.outputs)
        for graph in model.graphs():
            for name, value in tuple(graph.initializers.items()):
                if value not in read and not value.is_graph_input():
                    del graph.initializers[name]
                    modified = True
        modified |= common.RemoveUnusedOpsetsPass()(model).modified
        return ir.passes.PassResult(model, modified)


class DropZeroPoints(Pass):
    """Leave out zero points of 0 where integers of 32 bits are dequantized: WebGPU refuses them."""

    step = "drop zero points"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """A bias that was quantized with its product has one."""
        modified = False
        for node in nodes_of(model):
            if node.op_type != "DequantizeLinear" or node.domain != "" or len(node.inputs) < 3:
                continue
            zero = constant(node.inputs[2])
            if zero is not None and zero.dtype == ir.DataType.INT32 and not zero.numpy().any():
                node.resize_inputs(2)
                modified = True
        return ir.passes.PassResult(model, modified)


class RemoveIdentities(Pass):
    """Let the readers of an `Identity` read its input, unless it gives an output its name.

    (onnx_ir's own pass fails on an `Identity` of an outer value at the end of a subgraph.)
    """

    step = "remove identities"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Remove them in all graphs."""
        modified = False
        for node in tuple(nodes_of(model)):
            value = node.inputs[0] if node.inputs else None
            if node.op_type != "Identity" or node.domain != "" or value is None:
                continue
            if not node.outputs[0].is_graph_output() and node.graph is not None:
                node.outputs[0].replace_all_uses_with(value)
                node.graph.remove(node, safe=True)
                modified = True
        return ir.passes.PassResult(model, modified)


class ClearNotes(Pass):
    """Remove doc strings, metadata and the producer: traces of a machine, and bytes."""

    step = "clear notes"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Of the model, its graphs, nodes and values."""
        modified = bool(model.producer_name or model.producer_version or model.domain)
        model.producer_name = model.producer_version = model.domain = None
        modified |= bool(model.model_version)
        model.model_version = None
        modified |= _clear(model)
        for graph in model.graphs():
            modified |= _clear(graph)
            for value in (*graph.inputs, *graph.initializers.values()):
                modified |= _clear(value)
            for node in graph:
                modified |= _clear(node)
                for value in node.outputs:
                    modified |= _clear(value)
        if not model.graph.name:
            model.graph.name = "model"
            modified = True
        return ir.passes.PassResult(model, modified)


def _clear(item: ir.Model | ir.Graph | ir.Node | ir.Value) -> bool:
    noted = bool(item.doc_string or item.metadata_props)
    item.doc_string = None
    item.metadata_props.clear()
    return noted
