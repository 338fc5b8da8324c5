"""Write a graph model of TensorFlow.js as an ONNX graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from builder.errors import ExternalDataError, NotAModelError, UnsupportedError
from builder.sources import axes
from builder.sources.tfjs import arithmetic, pictures, shaping
from builder.sources.tfjs.arithmetic import Emit
from builder.sources.tfjs.files import Content
from builder.sources.tfjs.nodes import Node, dims, ordered, parse
from builder.sources.tfjs.values import Graph, Value

OPERATORS: Mapping[str, Emit] = {
    **arithmetic.OPERATORS,
    **pictures.OPERATORS,
    **shaping.OPERATORS,
}

INPUTS = ("Placeholder", "PlaceholderWithDefault")

IDLE = ("NoOp", "Assert", "Const", *INPUTS)
"""Operators whose results are no model's."""


@dataclass(frozen=True)
class Plan:
    """What has to be written.

    Attributes:
        nodes: What the outputs need, each node after those that it reads.
        inputs: Placeholders by the names of the inputs.
        outputs: Nodes by the names of the outputs.
    """

    nodes: list[Node]
    inputs: dict[str, Node]
    outputs: dict[str, str]


def plan(content: Content) -> Plan:
    """The signature that the model declares, else the names of its ends, and what is between.

    Raises:
        NotAModelError: The graph isn't whole.
    """
    nodes = parse(content.topology["node"])
    outputs = _outputs(content, nodes)
    needed = ordered(nodes, list(outputs.values()))
    inputs = _inputs(content, needed)
    named = {f"{k}_output" if k in inputs else k: source for k, source in outputs.items()}
    return Plan(needed, inputs, named)


def convert(content: Content, name: str) -> onnx.ModelProto:
    """The graph.

    Raises:
        NotAModelError: The graph isn't whole.
        ExternalDataError: A constant has no weight.
        UnsupportedError: Operators that can't be written; the first error names all of them.
    """
    what = plan(content)
    known = {*OPERATORS, *INPUTS, "Const"}
    unknown = sorted({node.op for node in what.nodes} - known)
    if unknown:
        raise UnsupportedError(
            "the graph",
            f"nothing is known of the operators {', '.join(unknown)}",
            "Convert the model that it was made from, a SavedModel or Keras file, if there is one.",
        )
    g = Graph()
    values = _write(g, content, what)
    ends = []
    for public, source in what.outputs.items():
        g.stem = public
        ends.append(g.op("Identity", g.plain(_value(values, source)), to=public))
        _complete(g, public, content.signature.get("outputs") or {})
    return g.model(list(what.inputs), ends, name)


def _complete(g: Graph, name: str, declared: Mapping[str, Mapping[str, Any]]) -> None:
    """Give an output the extents that the signature states where inference found none."""
    entry = declared.get(name) or declared.get(f"{name}:0") or {}
    told = entry.get("tensorShape") or {}
    found, stated = g.shape_of(name), dims(told)
    if told.get("unknownRank") or not stated or len(found or stated) != len(stated):
        return
    g.ranked(name, len(stated))
    for dim, extent in zip(g.types[name].tensor_type.shape.dim, stated, strict=True):
        if extent >= 0 and not dim.HasField("dim_param"):
            dim.dim_value = extent


def _outputs(content: Content, nodes: Mapping[str, Node]) -> dict[str, str]:
    """Nodes by the names of the outputs; those that nobody reads, where no signature names any."""
    declared = _public(content.signature.get("outputs"))
    if declared:
        return declared
    read = {name.partition(":")[0] for node in nodes.values() for name in node.inputs}
    found = {n.name: n.name for n in nodes.values() if n.name not in read and n.op not in IDLE}
    if not found:
        raise NotAModelError("the graph", "it has no outputs")
    return found


def _inputs(content: Content, needed: list[Node]) -> dict[str, Node]:
    """Placeholders by the names of the inputs; the signature's first, in its order."""
    placeholders = {node.name: node for node in needed if node.op in INPUTS}
    declared = _public(content.signature.get("inputs"))
    found = {p: placeholders.pop(node) for p, node in declared.items() if node in placeholders}
    return {**found, **placeholders}


def _public(entries: Mapping[str, Mapping[str, str]] | None) -> dict[str, str]:
    return {
        key.removesuffix(":0"): str(entry.get("name", key)).removesuffix(":0")
        for key, entry in (entries or {}).items()
    }


def _write(g: Graph, content: Content, what: Plan) -> dict[str, list[Value]]:
    """Write every node; gives what each one computes."""
    shapes = axes.named({name: _shape(content, name, node) for name, node in what.inputs.items()})
    values = {
        node.name: [g.input(name, node.dtype("dtype"), shapes[name])]
        for name, node in what.inputs.items()
    }
    g.reserve(what.outputs)
    readers = Counter((*what.outputs.values(), *(i for node in what.nodes for i in node.inputs)))
    for node in what.nodes:
        g.stem = node.name
        if node.op in INPUTS:
            continue
        if node.op == "Const":
            values[node.name] = [_constant(content, node)]
            continue
        results = OPERATORS[node.op](g, node, [_value(values, source) for source in node.inputs])
        values[node.name] = results if isinstance(results, list) else [results]
        for index, result in enumerate(values[node.name]):
            result.readers += readers[f"{node.name}:{index}" if index else node.name]
    return values


def _constant(content: Content, node: Node) -> Value:
    array = content.weights.get(node.name)
    if array is None:
        raise ExternalDataError(f"weight '{node.name}'", "no shard holds it")
    return Value(array=array.astype(node.dtype("dtype")))  # int64 is stored as int32


def _value(values: Mapping[str, list[Value]], source: str) -> Value:
    name, _, index = source.partition(":")
    found = values[name]
    if int(index or 0) >= len(found):
        raise UnsupportedError(f"node '{name}'", f"its output {index} can't be written")
    return found[int(index or 0)]


def _shape(content: Content, name: str, node: Node) -> list[int]:
    """Of an input; the signature's is truer than the node's own."""
    declared = content.signature.get("inputs") or {}
    entry = declared.get(name) or declared.get(f"{name}:0") or {}
    told = entry.get("tensorShape")
    shape = dims(told) if told is not None and not told.get("unknownRank") else node.shape("shape")
    if shape is None:
        raise node.refuse("its rank isn't known", "Save the model with an input of known rank.")
    return shape
