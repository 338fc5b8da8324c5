"""How large values get inside the bodies of If, Loop and Scan, which no caller can fetch.

Each body is given one output more, a small table that its nodes make of its values: how low and how
high they get and how much they add up to. Every entry is such that the least of two runs of a body
holds for both, so iterations are merged by a minimum, and a branch that isn't taken gives infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from builder.model import Array
from builder.passes.base import nodes_of
from builder.precision import storage

ENTRIES = 5
"""Least element; then, all negated: the largest, the sum of magnitudes, the sum of squares, and
the number of elements of the largest array."""

BODIES: Mapping[str, tuple[str, ...]] = {
    "If": ("then_branch", "else_branch"),
    "Loop": ("body",),
    "Scan": ("body",),
}
"""Attributes with the graphs that a node runs."""

FIRST_OPSET = 13
"""Older operators are written in other ways, and a Scan of opset 8 runs over a batch. The normal
form of most models is at least this."""

AXES_ARE_INPUTS = 18
"""Opset from which on `ReduceMin` takes its axes as an input."""


@dataclass(frozen=True)
class Seen:
    """What was seen of one value: bounds over all runs of its body.

    Attributes:
        low: Least element.
        high: Largest element.
        total: Largest sum of magnitudes of all elements.
        squares: Largest sum of squares.
        count: Largest number of elements.
    """

    low: float
    high: float
    total: float
    squares: float
    count: float


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a control flow node of ONNX runs; none for other nodes."""
    names = BODIES.get(node.op_type, ()) if node.domain == "" else ()
    return [node.attributes[name].as_graph() for name in names if name in node.attributes]


def inside(model: ir.Model) -> list[ir.Node]:
    """Nodes of bodies, nested ones included, in order."""
    return [node for node in nodes_of(model) if node.graph is not model.graph]


def watched(model: ir.Model) -> tuple[ir.Model, dict[str, list[str]]]:
    """A copy that gives tables of what is inside bodies, and nothing else.

    Args:
        model: In normal form; unchanged.

    Returns:
        The copy, and for each of its outputs, f32[values, 5], the names of the values. No outputs
        where there is nothing to see or no way to see it.
    """
    copy = model.clone()
    opset = copy.opset_imports.get("", 1)
    tables: dict[str, list[str]] = {}
    outputs = []
    if opset >= FIRST_OPSET:
        for node in tuple(copy.graph):
            if found := _Watch(opset, f"{node.name}_watch").node(node):
                table, names = found
                outputs.append(table)
                tables[table.name or ""] = names
    copy.graph.outputs[:] = outputs
    return copy, tables


def seen(
    tables: Mapping[str, list[str]], results: Sequence[Mapping[str, Array]]
) -> dict[str, Seen]:
    """Bounds by name, of values whose body ran at all, from the results of `watched` graphs."""
    found: dict[str, Seen] = {}
    for table, names in tables.items():
        rows = np.min([result[table] for result in results], axis=0)
        for name, row in zip(names, rows.tolist(), strict=True):
            if not math.isinf(row[4]):
                found[name] = Seen(row[0], *(-entry for entry in row[1:]))
    return found


class _Watch:
    """Adds a table to one node of the main graph and to those in its bodies."""

    def __init__(self, opset: int, prefix: str) -> None:
        self._opset, self._prefix, self._count = opset, prefix, 0

    def node(self, node: ir.Node) -> tuple[ir.Value, list[str]] | None:
        """The table of all bodies of a node, in the graph of the node, and its rows' names."""
        graphs = bodies(node)
        if not graphs or not all(len(node.outputs) == _outputs(node, graph) for graph in graphs):
            return None
        found = [self._body(graph) for graph in graphs]
        names = [name for _, inner in found for name in inner]
        if not names:
            return None
        before = 0
        for graph, (rows, inner) in zip(graphs, found, strict=True):
            after = len(names) - before - len(inner)
            parts = [self._unseen(graph, before), *rows, self._unseen(graph, after)]
            table = self._emit(graph, "Concat", [p for p in parts if p is not None], None, axis=0)
            _typed(table, len(names), ENTRIES)
            graph.outputs.append(table)
            before += len(inner)
        return self._widen(node, len(names)), names

    def _widen(self, node: ir.Node, count: int) -> ir.Value:
        """One output more; iterations of a loop are merged."""
        graph = node.graph
        assert isinstance(graph, ir.Graph)  # noqa: S101 - it was found in one
        node.resize_outputs(len(node.outputs) + 1)
        table = node.outputs[-1]
        table.name = self._name()
        _typed(table, count, ENTRIES)
        if node.op_type == "If":
            return table
        _typed(table, None, count, ENTRIES)
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in node.attributes:
                given = [*node.attributes[name].as_ints(), 0]
                node.attributes[name] = ir.AttrInt64s(name, given)
        # A loop that never ran gives none.
        none = self._constant(graph, np.full((1, count, ENTRIES), np.inf, np.float32))
        all_runs = self._emit(graph, "Concat", [table, none], node, axis=0)
        producer = all_runs.producer()
        if self._opset < AXES_ARE_INPUTS:
            merged = self._emit(graph, "ReduceMin", [all_runs], producer, axes=[0], keepdims=0)
        else:
            axes = self._constant(graph, np.array([0], np.int64))
            merged = self._emit(graph, "ReduceMin", [all_runs, axes], producer, keepdims=0)
        _typed(merged, count, ENTRIES)
        return merged

    def _body(self, graph: ir.Graph) -> tuple[list[ir.Value], list[str]]:
        rows: list[ir.Value] = []
        names: list[str] = []
        nodes = tuple(graph)
        given = [value for value in graph.inputs if not value.is_initializer()]
        for value in (*given, *(value for node in nodes for value in node.outputs)):
            if value.name and _is_number(value):
                rows.append(self._row(graph, value))
                names.append(value.name)
        for node in nodes:
            if found := self.node(node):
                rows.append(found[0])
                names += found[1]
        return rows, names

    def _row(self, graph: ir.Graph, value: ir.Value) -> ir.Value:
        """f32[1, 5] of one value: appended to its graph."""

        def emit(op_type: str, *inputs: ir.Value, **attributes: int) -> ir.Value:
            return self._emit(graph, op_type, inputs, None, **attributes)

        def constant(*numbers: float) -> ir.Value:
            return self._constant(graph, np.array(numbers, np.float32))

        flat = emit("Reshape", value, self._constant(graph, np.array([-1], np.int64)))
        if value.dtype != ir.DataType.FLOAT:
            flat = emit("Cast", flat, to=int(ir.DataType.FLOAT))
        infinite, zero = constant(math.inf), constant(0)
        entries = [
            emit("ReduceMin", emit("Concat", flat, infinite, axis=0)),
            emit("ReduceMin", emit("Concat", emit("Neg", flat), infinite, axis=0)),
            emit("Neg", emit("ReduceL1", emit("Concat", flat, zero, axis=0))),
            emit("Neg", emit("ReduceSumSquare", emit("Concat", flat, zero, axis=0))),
            emit("Neg", emit("Cast", emit("Shape", flat), to=int(ir.DataType.FLOAT))),
        ]
        row = emit("Concat", *entries, axis=0)
        broken = emit("IsNaN", entries[2])
        # NaN counts as infinite; the number of elements shows that the body ran.
        row = emit("Where", broken, constant(*[-math.inf] * (ENTRIES - 1), -1), row)
        return emit("Reshape", row, self._constant(graph, np.array([1, ENTRIES], np.int64)))

    def _unseen(self, graph: ir.Graph, count: int) -> ir.Value | None:
        return (
            self._constant(graph, np.full((count, ENTRIES), np.inf, np.float32)) if count else None
        )

    def _constant(self, graph: ir.Graph, array: Array) -> ir.Value:
        return storage.weight(graph, self._name(), array)

    def _emit(
        self,
        graph: ir.Graph,
        op_type: str,
        inputs: Sequence[ir.Value],
        after: ir.Node | None,
        **attributes: int | list[int],
    ) -> ir.Value:
        node = ir.node(op_type, inputs, attributes, num_outputs=1, name=self._name())
        node.outputs[0].name = self._name()
        if after is None:
            graph.append(node)
        else:
            graph.insert_after(after, node)
        return node.outputs[0]

    def _name(self) -> str:
        self._count += 1
        return f"{self._prefix}_{self._count}"


def _typed(value: ir.Value, *shape: int | None) -> None:
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)


def _outputs(node: ir.Node, body: ir.Graph) -> int:
    """How many outputs a node has by its body: that of a Loop also gives whether to go on."""
    return len(body.outputs) - (node.op_type == "Loop")


def _is_number(value: ir.Value) -> bool:
    dtype = value.dtype
    return (
        isinstance(value.type, ir.TensorType)
        and dtype is not None
        and (dtype == ir.DataType.FLOAT or dtype.is_integer())
    )


def links(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """What passes on its content at the edges of a node's bodies, as pairs: from, to.

    What goes in, what comes out and, for a Loop or Scan, what the next iteration is given.
    """
    skip = 1 if node.op_type == "Loop" else 0  # in: a count; out: whether to go on
    for body in bodies(node):
        carried = len(body.inputs) if node.op_type == "Loop" else 0
        if node.op_type == "Scan":
            carried = len(body.inputs) - node.attributes.get_int("num_scan_inputs", 0)
        for outer, inner in zip(node.inputs if body.inputs else (), body.inputs, strict=False):
            if outer is not None:
                yield outer, inner
        yield from zip(body.outputs[skip:], node.outputs, strict=False)
        begin = 2 * skip
        for inner, back in zip(body.inputs[begin:carried], body.outputs[skip:], strict=False):
            yield back, inner
