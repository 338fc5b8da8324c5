"""Every node and value gets a name that no other has, the same one in every build."""

from __future__ import annotations

import onnx_ir as ir

from builder.passes.base import Pass, nodes_of


class NameEverything(Pass):
    """Name what has no name and rename what shares one, across the main graph and all subgraphs.

    Names of the signature are sacred. An output that a node leaves out (no name, no reader) stays
    left out: a name would ask the runtime to compute it.
    """

    step = "name nodes and values"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Names of inputs, then outputs, then weights, then the rest in the order of the graph."""
        before = [value.name for value in _values(model)] + [n.name for n in nodes_of(model)]
        used: set[str] = set()
        seen: set[ir.Value] = set()
        taken = {value.name for value in _values(model) if value.name}
        for value in _values(model):
            if value in seen:
                continue
            seen.add(value)
            if not value.name or value.name in used:
                value.name = _fresh(value.name or _suggest(value), used | taken)
            used.add(value.name)
        _name_nodes(model)
        after = [value.name for value in _values(model)] + [n.name for n in nodes_of(model)]
        return ir.passes.PassResult(model, before != after)


def _values(model: ir.Model) -> list[ir.Value]:
    """Every value that is or needs to be named, those of the signature first; may repeat."""
    values = [*model.graph.inputs, *model.graph.outputs]
    for graph in model.graphs():
        values += [*graph.inputs, *graph.outputs, *graph.initializers.values()]
    for node in nodes_of(model):
        values += [
            value for value in node.outputs if value.name or value.uses() or value.is_graph_output()
        ]
    return values


def _name_nodes(model: ir.Model) -> None:
    taken = {node.name for node in nodes_of(model) if node.name}
    used: set[str] = set()
    for node in nodes_of(model):
        if not node.name or node.name in used:
            node.name = _fresh(node.name or node.op_type, used | taken)
        used.add(node.name)


def _suggest(value: ir.Value) -> str:
    producer = value.producer()
    return f"{producer.op_type}_out" if producer is not None else "value"


def _fresh(base: str, used: set[str]) -> str:
    number = 1
    while f"{base}_{number}" in used:
        number += 1
    return f"{base}_{number}"
