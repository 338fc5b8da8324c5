"""Tables that are looked up: rows are gathered as they are stored, and made floats after that.

Only the rows that are asked for are ever unpacked. All of it is standard operators on uint8, which
both backends gather (WebGPU has no kernel for int8 there, WASM none for onnxruntime's own
`GatherBlockQuantized`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from builder.precision.blocks import BLOCK, Blocks
from builder.precision.storage import Step, chain, weight

FLOAT = int(ir.DataType.FLOAT)


def is_lookup(node: ir.Node, index: int) -> bool:
    """Whether a node looks rows up in its input at `index`."""
    if node.op_type != "Gather" or node.domain != "" or index != 0:
        return False
    return node.attributes.get_int("axis", 0) == 0


def look_up(node: ir.Node, levels: ir.Value, scale: ir.Value, zero: float) -> ir.Value:
    """Rows of a table in 8 bits with one scale each.

    Args:
        node: The `Gather` that it replaces.
        levels: uint8 [rows, *shape].
        scale: float32 [rows, *ones].
        zero: Level that stands for 0.
    """
    graph, name = _place(node)
    indices = node.inputs[1]
    scales = chain(graph, node, f"{name}_scale", [("Gather", [scale, indices], {"axis": 0})])
    steps: list[Step] = [
        ("Gather", [levels, indices], {"axis": 0}),
        ("Cast", [None], {"to": FLOAT}),
        ("Sub", [None, weight(graph, f"{name}_zero", np.array(zero, np.float32))], {}),
        ("Mul", [None, scales], {}),
    ]
    return chain(graph, node, f"{name}_rows", steps)


def look_up_values(node: ir.Node, indices: ir.Value, values: ir.Value, scale: ir.Value) -> ir.Value:
    """Rows of a table that is stored as indices into a codebook.

    Args:
        node: The `Gather` that it replaces.
        indices: uint8 [rows, *shape].
        values: The codebook, float32 [n].
        scale: float32 [rows, *ones].
    """
    graph, name = _place(node)
    rows = node.inputs[1]
    scales = chain(graph, node, f"{name}_scale", [("Gather", [scale, rows], {"axis": 0})])
    steps: list[Step] = [
        ("Gather", [indices, rows], {"axis": 0}),
        ("Cast", [None], {"to": int(ir.DataType.INT32)}),
        ("Gather", [values, None], {}),
        ("Mul", [None, scales], {}),
    ]
    return chain(graph, node, f"{name}_rows", steps)


def look_up_blocks(node: ir.Node, parts: Parts, blocks: Blocks, rank: int) -> ir.Value:
    """Rows of a table in 4 bits.

    Args:
        node: The `Gather` that it replaces.
        parts: Where the table lies in the graph.
        blocks: The table: its rows are the outputs.
        rank: Of the indices.
    """
    graph, name = _place(node)
    indices = node.inputs[1]
    gathered = [
        chain(graph, node, f"{name}_{index}", [("Gather", [part, indices], {"axis": 0})])
        for index, part in enumerate((parts.flat(graph), parts.scales, parts.zeros))
    ]
    return unpack(node, name, gathered, blocks, rank)


def unpack(
    before: ir.Node, name: str, packed: list[ir.Value], blocks: Blocks, rank: int
) -> ir.Value:
    """Levels, scales and zero points of some rows to floats, by standard operators.

    Args:
        before: The node that the operators stand before.
        name: What their names start with.
        packed: uint8 [..., blocks * 16], float [..., blocks], uint8 [..., ceil(blocks / 2)].
        blocks: Whose layout it is.
        rank: Of `...`.
    """
    graph = before.graph
    if not isinstance(graph, ir.Graph):
        raise TypeError("tables are unpacked in the main graph")
    count = blocks.scales.shape[1]
    kept = [0] * rank
    levels = _halves(graph, before, f"{name}_levels", packed[0], [*kept, count, BLOCK])
    zeros = _halves(graph, before, f"{name}_zeros", packed[2], [*kept, -1])
    if count % 2:
        ends = [np.array([value]) for value in (0, count, -1)]
        places = [weight(graph, f"{name}_cut{i}", end) for i, end in enumerate(ends)]
        zeros = chain(graph, before, f"{name}_zeros_cut", [("Slice", [zeros, *places], {})])
    each = weight(graph, f"{name}_each", np.array([*kept, count, 1]))
    zeros = chain(graph, before, f"{name}_zeros_each", [("Reshape", [zeros, each], {})])
    scales = chain(graph, before, f"{name}_scales_each", [("Reshape", [packed[1], each], {})])
    flat = weight(graph, f"{name}_whole", np.array([*kept, -1]))
    steps: list[Step] = [
        ("Sub", [levels, zeros], {}),
        ("Mul", [None, scales], {}),
        ("Reshape", [None, flat], {}),
    ]
    if blocks.inputs % BLOCK:
        ends = [np.array([value]) for value in (0, blocks.inputs, -1)]
        cut = [weight(graph, f"{name}_end{i}", end) for i, end in enumerate(ends)]
        steps.append(("Slice", [None, *cut], {}))
    return chain(graph, before, f"{name}_values", steps)


class Parts:
    """A table or weight in 4 bits as it lies in a graph.

    Args:
        graph: Where it is put.
        name: What names start with.
        blocks: The weight.
    """

    def __init__(self, graph: ir.Graph, name: str, blocks: Blocks) -> None:
        self._name = name
        self.levels = weight(graph, f"{name}_uint4", blocks.levels)
        half = weight(graph, f"{name}_scales", blocks.scales)
        self.scales = chain(
            graph, graph[0], f"{name}_scales_full", [("Cast", [half], {"to": FLOAT})]
        )
        self.scales.type, self.scales.shape = ir.TensorType(ir.DataType.FLOAT), half.shape
        self.zeros = weight(graph, f"{name}_zeros", blocks.zeros)
        self._flat: ir.Value | None = None

    def flat(self, graph: ir.Graph) -> ir.Value:
        """The levels as rows of bytes, uint8 [N, blocks * 16]."""
        if self._flat is None:
            shape = weight(graph, f"{self._name}_flat", np.array([self.levels.shape[0], -1]))  # type: ignore[index]
            self._flat = chain(
                graph, graph[0], f"{self._name}_bytes", [("Reshape", [self.levels, shape], {})]
            )
        return self._flat


def _halves(
    graph: ir.Graph, before: ir.Node, name: str, packed: ir.Value, shape: list[int]
) -> ir.Value:
    """Two numbers out of each byte, the one in the low half first, as floats of a shape."""
    sixteen = weight(graph, f"{name}_sixteen", np.array(16, np.float32))
    last = weight(graph, f"{name}_last", np.array([-1]))
    whole = chain(graph, before, f"{name}_byte", [("Cast", [packed], {"to": FLOAT})])
    high = chain(
        graph, before, f"{name}_high", [("Div", [whole, sixteen], {}), ("Floor", [None], {})]
    )
    low = chain(
        graph, before, f"{name}_low", [("Mul", [high, sixteen], {}), ("Sub", [whole, None], {})]
    )
    pair = [
        chain(graph, before, f"{name}_{index}", [("Unsqueeze", [half, last], {})])
        for index, half in enumerate((low, high))
    ]
    target = weight(graph, f"{name}_shape", np.array(shape))
    return chain(
        graph,
        before,
        f"{name}_pairs",
        [("Concat", pair, {"axis": -1}), ("Reshape", [None, target], {})],
    )


def _place(node: ir.Node) -> tuple[ir.Graph, str]:
    if not isinstance(node.graph, ir.Graph):
        raise TypeError(f"node '{node.name}' is in no graph")
    return node.graph, node.outputs[0].name or ""
