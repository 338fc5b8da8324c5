"""What our passes share with onnx_ir's, and add: a name for events, and the events themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import onnx_ir as ir

from builder.model import Event


class Telling:
    """A pass in onnx_ir's sense (`call(model) -> PassResult`) that can say what it did.

    Attributes:
        step: The pass's name in events.
        events: What it changed, skipped or gave up in its last call.
    """

    step = "pass"

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def event(self, level: Literal["info", "warning"], message: str) -> None:
        """Record what happened."""
        self.events.append(Event(level, self.step, message))


class Pass(Telling, ir.passes.InPlacePass):
    """A telling pass that changes the model that it is given."""


def nodes_of(model: ir.Model) -> Iterator[ir.Node]:
    """Every node, those inside subgraphs included, in order."""
    yield from ir.traversal.RecursiveGraphIterator(model.graph)


def names_of(model: ir.Model) -> set[str]:
    """Names of all nodes and values, those of subgraphs included."""
    graphs, nodes = tuple(model.graphs()), tuple(nodes_of(model))
    values = [v for g in graphs for v in (*g.inputs, *g.initializers.values())]
    values += [v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None]
    return {node.name for node in nodes if node.name} | {v.name for v in values if v.name}


def weights_of(model: ir.Model) -> Iterator[ir.Value]:
    """Every initializer with data, those of subgraphs included, in order."""
    for graph in model.graphs():
        for value in tuple(graph.initializers.values()):
            if value.const_value is not None:
                yield value


def is_edge(value: ir.Value) -> bool:
    """Whether a value is an input or output of the graph it belongs to."""
    return value.is_graph_input() or value.is_graph_output()


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer that no caller can override, else None."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value
