"""Types of what a node reads and gives, by its operator's schema; exact numbers; masks."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from builder.passes.base import constant, nodes_of
from builder.precision import half_ops as ops
from builder.precision.bodies import bodies, links


def is_float(value: ir.Value | None) -> bool:
    """Whether a value is an fp32 tensor."""
    return (
        value is not None
        and isinstance(value.type, ir.TensorType)
        and value.dtype == ir.DataType.FLOAT
    )


def has_floats(node: ir.Node) -> bool:
    """Whether a node reads or gives fp32 tensors, or values whose type nobody knows."""
    return any(
        value is not None and (is_float(value) or value.type is None)
        for value in (*node.inputs, *node.outputs)
    ) or has_bodies(node)


def has_bodies(node: ir.Node) -> bool:
    """Whether a node runs graphs of its own."""
    return any(
        attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for attr in node.attributes.values()
    )


def exempt(node: ir.Node, opset: int) -> frozenset[int]:
    """Positions of inputs that stay fp32 even if the node computes in half."""
    fixed = ops.EXEMPT_INPUTS.get(node.op_type, frozenset())
    schema = _schema(node, opset)
    if schema is None:
        return fixed
    return fixed | {
        index
        for index in range(len(node.inputs))
        if _formal(schema.inputs, index).type_str == "tensor(float)"
    }


def allowed(node: ir.Node, opset: int) -> bool:
    """Whether the operator's schema allows half for every float that isn't exempt."""
    schema = _schema(node, opset)
    if schema is None:
        return False
    spared = exempt(node, opset)
    floats = [
        _formal(schema.inputs, index)
        for index, value in enumerate(node.inputs)
        if index not in spared and is_float(value)
    ]
    floats += [
        _formal(schema.outputs, index)
        for index, value in enumerate(node.outputs)
        if is_float(value)
    ]
    return all("tensor(float16)" in formal.types for formal in floats)


def _schema(node: ir.Node, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None


def _formal(
    formals: Sequence[onnx.defs.OpSchema.FormalParameter], index: int
) -> onnx.defs.OpSchema.FormalParameter:
    """The formal parameter at a position; the last one may be variadic."""
    return formals[min(index, len(formals) - 1)]


def counts(model: ir.Model) -> set[ir.Value]:
    """Floats that are made of integers and become integers, sizes or scales again: exact ones."""
    opset = model.opset_imports.get("", 1)
    nodes = tuple(nodes_of(model))
    edges = [pair for node in nodes for pair in links(node)]
    # What an iteration is given may be a count, until shown otherwise: it counts as one.
    made = {to for _, to in edges if to.producer() is None and is_float(to)}
    for node in nodes:
        source = node.inputs[0] if node.inputs else None
        if node.op_type == "Cast" and source is not None and source.dtype is not None:
            begins = source.dtype.is_integer()
        else:
            begins = False
        inputs = [value for value in node.inputs if value is not None and is_float(value)]
        goes_on = any(value in made for value in inputs) and all(
            value in made or constant(value) is not None for value in inputs
        )
        if begins or goes_on or bodies(node):
            made.update(value for value in node.outputs if is_float(value))
    exact: set[ir.Value] = set()
    known = -1
    while known < len(exact):
        known = len(exact)
        exact.update(of for of, to in edges if to in exact and of in made)
        for node in reversed(nodes):
            whole = all(v.dtype is not None and v.dtype.is_integer() for v in node.outputs)
            spared = exempt(node, opset)
            for index, value in enumerate(node.inputs):
                if value not in made or value is None:
                    continue
                becomes = index in spared or (node.op_type == "Cast" and whole)
                goes_on = not bodies(node) and any(output in exact for output in node.outputs)
                if becomes or goes_on:
                    exact.add(value)
    return exact


def masked(graph: ir.Graph) -> set[ir.Value]:
    """Values that go nowhere but into a Softmax, through additions and moves only."""
    found: set[ir.Value] = set()
    for node in reversed(graph):
        for value in node.outputs:
            uses = value.uses()
            if not uses or value.is_graph_output():
                continue
            if all(
                user.domain == ""
                and user.graph is graph
                and (
                    user.op_type == "Softmax"
                    or (user.op_type in ops.MASK_PATH and user.outputs[0] in found)
                )
                for user, _ in uses
            ):
                found.add(value)
    return found
