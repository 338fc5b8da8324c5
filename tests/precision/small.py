"""Small models from onnx's text format, and the ways to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from builder import passes
from builder.model import Array, Model, Provenance, Reference, Signature
from builder.passes.base import nodes_of
from builder.session import Session

Weights = Mapping[str, Array]


def model(text: str, weights: Weights | None = None, opset: int = 18) -> Model:
    """A model from `name (inputs) => (outputs) { nodes }`; `weights` become initializers."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    graph = ir.from_proto(proto)
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def normal(text: str, weights: Weights | None = None, opset: int = 18) -> Model:
    """The same in normal form."""
    return passes.normalise(model(text, weights, opset))


def references(of: Model, *inputs: Mapping[str, Array]) -> list[Reference]:
    """Inputs with the fp32 outputs on the CPU."""
    session = Session(of.ir)
    return [Reference(str(i), feed, session.run(feed)) for i, feed in enumerate(inputs)]


def run(graph: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Run on onnxruntime's CPU provider; arrays of whatever type the test expects."""
    return dict(Session(graph).run(inputs))


def run_in_half(graph: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Run by onnx's reference evaluator: numpy, so fp16 nodes really compute in half."""
    with np.errstate(all="ignore"):
        evaluator = ReferenceEvaluator(ir.to_proto(graph))
        results = evaluator.run(None, dict(inputs))
    return dict(zip(evaluator.output_names, results, strict=True))


def operators(graph: ir.Model) -> list[str]:
    """Operators in order, those of subgraphs included."""
    return [node.op_type for node in nodes_of(graph)]


def weight(graph: ir.Model, name: str) -> Any:
    """The content of an initializer."""
    tensor = graph.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy()


def input_dtypes(graph: ir.Model, op_type: str) -> Sequence[Sequence[str]]:
    """Element types of the inputs of each node of an operator."""
    return [
        [value.dtype.name for value in node.inputs if value is not None and value.dtype is not None]
        for node in nodes_of(graph)
        if node.op_type == op_type
    ]
