"""Give the inputs and outputs of an exported graph the names and shapes that they should have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import helper


def rename(proto: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Name inputs and outputs, by their order; values inside that are called so give way."""
    graph = proto.graph
    new = {old.name: name for old, name in zip(graph.input, inputs, strict=True)}
    ends: list[str] = []
    for old, name in zip(graph.output, outputs, strict=True):
        if old.name in new:  # an input, or an output that has a name already
            graph.node.append(helper.make_node("Identity", [old.name], [f"{name}/copy"]))
            old.name = f"{name}/copy"
        new[old.name] = name
        ends.append(old.name)
    wanted = {*inputs, *outputs}
    inner = {name for node in nodes_of(graph) for name in node.output}
    inner |= {tensor.name for tensor in graph.initializer}
    new |= {name: f"{name}/inner" for name in inner & wanted if name not in new}
    _apply(graph, new)


def _apply(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    for node in nodes_of(graph):
        for side in (node.input, node.output):
            side[:] = [new.get(name, name) for name in side]
    for named in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        named.name = new.get(named.name, named.name)


def reshape(
    proto: onnx.ModelProto,
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str | None]],
) -> None:
    """Write shapes; what was inferred from others is dropped."""
    del proto.graph.value_info[:]
    shapes: dict[str, Sequence[int | str | None]] = {**inputs, **outputs}
    for end in (*proto.graph.input, *proto.graph.output):
        kind = end.type.tensor_type.elem_type
        end.CopyFrom(helper.make_tensor_value_info(end.name, kind, shapes[end.name]))


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of subgraphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)
            for inner in attribute.graphs:
                yield from nodes_of(inner)
