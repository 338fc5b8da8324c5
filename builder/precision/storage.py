"""Put weights into a graph in the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from builder.errors import ConversionError
from builder.model import Array
from builder.passes.base import constant, is_edge

Step: TypeAlias = tuple[str, Sequence[ir.Value | None], Mapping[str, object]]
"""Operator, inputs (None for the output of the step before) and attributes."""


def require(model: ir.Model, opset: int, lacks: str) -> None:
    """Refuse a graph of an older opset than operators of a form came with.

    Raises:
        ConversionError: It is older; `lacks` says what it can't do.
    """
    found = model.opset_imports.get("", 0)
    if found < opset:
        raise ConversionError(
            "graph",
            f"its opset {found} {lacks} (opset {opset} can)",
            f"Export the model with opset {opset} or newer.",
        )


def first_input(node: ir.Node) -> ir.Value:
    """What a layer works on, as it reads it now: the layer before it may have been rewritten."""
    value = node.inputs[0]
    if value is None:
        raise TypeError(f"node '{node.name}' has no first input")
    return value


def weight(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    """A new initializer; the name gets underscores where it is taken."""
    while name in graph.initializers:
        name += "_"
    tensor = ir.tensor(np.array(array, order="C"), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape))
    value.const_value = tensor
    graph.register_initializer(value)
    return value


def chain(graph: ir.Graph, before: ir.Node, name: str, steps: Sequence[Step]) -> ir.Value:
    """Insert nodes one after the other, each reading the one before it first.

    Args:
        graph: Where they go.
        before: The node that they stand before.
        name: What their names start with.
        steps: Operator, inputs (None for the output of the step before), attributes.
    """
    produced: list[ir.Value] = []
    for index, (op_type, inputs, attributes) in enumerate(steps):
        filled = [produced[-1] if given is None else given for given in inputs]
        node = ir.node(
            op_type,
            filled,
            attributes,  # type: ignore[arg-type]  # onnx_ir takes any mapping
            domain=DOMAIN if op_type in CONTRIB else "",
            num_outputs=1,
            name=f"{name}_{op_type}_{index}",
        )
        produced.append(node.outputs[0])
        produced[-1].name = f"{name}_{index}"
        produced[-1].type = _type(op_type, filled[0], attributes)
        graph.insert_before(before, node)
    return produced[-1]


MOVERS = frozenset("Concat Gather Reshape ScatterND Slice Transpose Unsqueeze".split())
"""Operators that give the type of what they read first; most others here give floats."""


def _type(
    op_type: str, source: ir.Value | None, attributes: Mapping[str, object]
) -> ir.TypeProtocol | None:
    if op_type in MOVERS:
        return source.type if source is not None else None
    if op_type == "Cast":
        return ir.TensorType(ir.DataType(int(str(attributes["to"]))))
    return ir.TensorType(ir.DataType.UINT8 if op_type == "QuantizeLinear" else ir.DataType.FLOAT)


DOMAIN = "com.microsoft"

CONTRIB = frozenset(("FusedConv", "FusedMatMul", "MatMulIntegerToFloat", "MatMulNBits"))
"""onnxruntime's own operators that conversions use."""


def replace(value: ir.Value, steps: Sequence[Step], graph: ir.Graph) -> None:
    """Let what some steps make of stored bytes take a weight's name and readers.

    The steps are operators that the runtime folds while it makes the session. `DequantizeLinear`
    isn't among them: onnxruntime leaves that to every run, or turns it and the product behind it
    into `MatMulNBits`, which is 1.8 times slower on WASM and rounds activations as well.
    """
    name = value.name or ""
    del graph.initializers[name]
    value.name = f"{name}_unstored"
    result = chain(graph, graph[0], f"{name}_stored", steps)
    result.type, result.shape = value.type, value.shape
    value.replace_all_uses_with(result)
    result.name = name


def take_over(old: ir.Value, new: ir.Value, graph: ir.Graph) -> None:
    """Let a value take another's name, type, readers and place among the graph's outputs; the
    node that made the other one is removed.
    """
    new.type, new.shape = old.type, old.shape
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
    old.replace_all_uses_with(new)
    name, old.name = old.name, f"{old.name}_before"
    new.name = name
    producer = old.producer()
    if producer is not None:
        graph.remove(producer, safe=True)


def float_weights(graph: ir.Graph) -> list[ir.Value]:
    """Initializers of a graph in fp32 that no caller sees, in order."""
    return [
        value
        for value in graph.initializers.values()
        if (tensor := constant(value)) is not None
        and tensor.dtype == ir.DataType.FLOAT
        and not is_edge(value)
    ]
