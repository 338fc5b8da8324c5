"""Weights that are there a second time transposed are stored once: tied embeddings above all.

PyTorch's tracing exporter writes the weight that an embedding and the last product share as [V, D]
and as [D, V]; equal bytes (`builder.passes.dedup`) aren't found there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.passes.base import Pass, constant, is_edge
from builder.passes.fold import SMALL_BYTES

Bits = npt.NDArray[np.unsignedinteger]

SIZES = (1, 2, 4, 8)
"""Bytes of the elements that are compared."""


class DeduplicateTransposed(Pass):
    """Let products read a weight through a `Transpose` of its twin, or a `Gemm` by its flags.

    A weight of at least two axes goes if another one has the same bits with the last two swapped,
    and only products read it (`READERS`). Of two that could go the later one does; a table whose
    rows are looked up never does. Small ones stay (`SMALL_BYTES`): folding would make them again.

    The runtime computes the `Transpose` once, while it makes the session: what is downloaded
    halves, memory stays what it was with both. Flags of a `Gemm` save memory as well.
    """

    step = "deduplicate transposed weights"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Only in the main graph: weights large enough to matter aren't elsewhere by now."""
        graph, saved, count = model.graph, 0, 0
        for group in _candidates(graph):
            kept = group.copy()
            for value in reversed(group):
                twin = _twin(value, kept) if _only_products(value) else None
                tensor = constant(value)
                if twin is not None and tensor is not None:
                    _read_turned(value, twin, graph)
                    kept.remove(value)
                    count, saved = count + 1, saved + tensor.nbytes
        if count:
            self.event("info", f"{count} weights were there transposed: {saved} bytes saved")
        return ir.passes.PassResult(model, count > 0)


def _candidates(graph: ir.Graph) -> Iterator[list[ir.Value]]:
    """Weights that may be one another's transposes, in the order of the graph.

    By dtype, by shape but for the order of the last two axes, and by the sum of all bits, which no
    order changes: so each weight is read once, and pairs are compared only where that is the same.
    """
    shapes: dict[Hashable, list[ir.Value]] = defaultdict(list)
    for value in graph.initializers.values():
        tensor = constant(value)
        unread = not tuple(value.uses())  # what folding has replaced, and nothing removed yet
        if tensor is None or unread or is_edge(value) or tensor.dtype.itemsize not in SIZES:
            continue
        dims = tensor.shape.numpy()
        if len(dims) >= 2 and tensor.nbytes > SMALL_BYTES:
            shapes[tensor.dtype, dims[:-2], tuple(sorted(dims[-2:]))].append(value)
    for alike in shapes.values():
        sums: dict[int, list[ir.Value]] = defaultdict(list)
        for value in alike if len(alike) > 1 else ():
            sums[int(np.sum(_bits(value), dtype=np.uint64))].append(value)
        yield from (group for group in sums.values() if len(group) > 1)


def _bits(value: ir.Value) -> Bits:
    """Elements as unsigned integers: 0.0 and -0.0 differ, two NaNs of the same bits don't."""
    tensor = constant(value)
    array = np.asarray(tensor.numpy() if tensor is not None else ())
    return array.view(f"u{array.dtype.itemsize}")


def _twin(value: ir.Value, among: list[ir.Value]) -> ir.Value | None:
    turned = _bits(value).swapaxes(-1, -2)
    return next((v for v in among if v is not value and np.array_equal(_bits(v), turned)), None)


def _only_products(value: ir.Value) -> bool:
    uses = tuple(value.uses())
    return bool(uses) and all(
        node.domain == "" and (node.op_type, index) in READERS for node, index in uses
    )


def _read_turned(value: ir.Value, twin: ir.Value, graph: ir.Graph) -> None:
    """Let all readers of a weight read its twin; the `Transpose` takes over its name."""
    for node, index in tuple(value.uses()):
        flag = READERS[node.op_type, index]
        if flag:
            node.attributes[flag] = ir.AttrInt64(flag, 1 - node.attributes.get_int(flag, 0))
            node.replace_input_with(index, twin)
    del graph.initializers[value.name or ""]
    if not tuple(value.uses()):
        return
    rank = len(value.shape) if value.shape is not None else 2
    perm = [*range(rank - 2), rank - 1, rank - 2]
    node = ir.node("Transpose", [twin], {"perm": perm}, num_outputs=1)
    node.name, turned = f"{value.name}_Transpose", node.outputs[0]
    turned.type, turned.shape = value.type, value.shape
    value.replace_all_uses_with(turned)
    turned.name, value.name = value.name, None
    graph.insert_before(graph[0], node)


READERS: dict[tuple[str, int], str] = {
    ("MatMul", 0): "",
    ("MatMul", 1): "",
    ("Gemm", 0): "transA",
    ("Gemm", 1): "transB",
}
"""Operator and position to the flag that turns this input, "" where there is none."""
