"""Whatever depends on constants and static shapes alone is computed now, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np
import onnx
import onnx_ir as ir

from builder.errors import UnsupportedError
from builder.model import Array
from builder.passes.base import Pass, constant, nodes_of
from builder.passes.shapes import InferShapes
from builder.session import Session

SMALL_BYTES = 1024
"""A result up to this size is always stored; a larger one only in place of what it came from."""

ROUNDS = 100
"""Each round of shape inference may make more foldable: one SAME padding of a chain, say."""

NEVER = frozenset(
    # Drawn anew in every run,
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial Dropout "
    # or the storage of a quantized model, which folding would undo.
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear".split()
)


class FoldConstants(Pass):
    """Replace nodes by their results where these are the same in every run.

    Constant are: nodes whose inputs all are, computed by onnxruntime on the CPU; `Shape` and `Size`
    of static dimensions; a `Gather` or `Slice` that takes only the static ones out of a shape.
    The download never grows: `Expand` and the like, copies of a weight that others read too, and
    widening casts stay in the graph.
    """

    step = "fold constants"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Infer shapes and fold, until nothing more folds."""
        self._kept: Counter[str] = Counter()
        self._tried: set[ir.Node] = set()
        folded = 0
        for _ in range(ROUNDS):
            InferShapes()(model)
            count = self._round(model)
            folded += count
            if count == 0:
                break
        if folded:
            self.event("info", f"{folded} nodes were constant")
        for op_type, count in sorted(self._kept.items()):
            self.event("info", f"{count} constant {op_type} stay: stored they would be larger")
        return ir.passes.PassResult(model, folded > 0)

    def _round(self, model: ir.Model) -> int:
        count = 0
        for node in tuple(nodes_of(model)):
            if node in self._tried or not _may_fold(node):
                continue
            results = _from_shape(node)
            if results is None and node.inputs and _all_constant(node):
                self._tried.add(node)
                if _too_large(node):
                    self._kept[node.op_type] += 1
                    continue
                results = _compute(node, model)
                if results is not None and _grows(node, sum(r.nbytes for r in results)):
                    self._kept[node.op_type] += 1
                    continue
            if results is not None:
                _replace(node, results)
                count += 1
        return count


def _may_fold(node: ir.Node) -> bool:
    return (
        node.domain == ""
        and node.op_type not in NEVER
        and not any(value.is_graph_output() for value in node.outputs)
        and not any(
            attr.is_ref() or attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
            for attr in node.attributes.values()
        )
    )


def _all_constant(node: ir.Node) -> bool:
    return all(value is None or constant(value) is not None for value in node.inputs)


def _too_large(node: ir.Node) -> bool:
    """Whether shape inference already knows that the result is larger than its inputs."""
    size = _inferred_size(node)
    return size is not None and _grows(node, size)


def _inferred_size(node: ir.Node) -> int | None:
    """Bytes of the results as far as shape inference knows them."""
    size = 0
    for value in node.outputs:
        if value.shape is None or value.dtype is None or not value.shape.is_static():
            return None
        size += int(np.prod(value.shape.numpy(), dtype=np.int64) * max(value.dtype.itemsize, 1))
    return size


def _grows(node: ir.Node, size: int) -> bool:
    """Whether storing `size` bytes is more than what goes when this node and its like are folded.

    A weight goes if this node alone reads it, or if all its readers fold into no more than it has
    (an LSTM's weight cut into gates, say).
    """
    released = 0
    for value in {value for value in node.inputs if value is not None}:
        tensor = constant(value)
        if tensor is None or value.is_graph_output():
            continue
        readers = {user for user, _ in value.uses()}
        if readers == {node}:
            released += tensor.nbytes
        elif all(_may_fold(user) and _all_constant(user) for user in readers):
            sizes = [_inferred_size(user) for user in readers]
            if None not in sizes and sum(s for s in sizes if s is not None) <= tensor.nbytes:
                released += size
    return size > max(SMALL_BYTES, released)


def _from_shape(node: ir.Node) -> list[Array] | None:
    """The result of a node that reads nothing but static dimensions, or None."""
    if node.op_type == "Size":
        dims = _dims(node.inputs[0])
        static = [dim for dim in dims or () if dim is not None]
        known = dims is not None and len(static) == len(dims)
        return [np.array(np.prod(static, dtype=np.int64))] if known else None
    if node.op_type == "Shape":
        taken: object = _shape(node)
    elif node.op_type in ("Gather", "Slice") and (source := node.inputs[0]) is not None:
        producer = source.producer()
        if producer is None or producer.op_type != "Shape" or producer.domain != "":
            return None
        dims = _shape(producer)
        if dims is None:
            return None
        taken = _gather(node, dims) if node.op_type == "Gather" else _slice(node, dims)
    else:
        return None
    if taken is None:
        return None
    array = np.array(taken, dtype=object)
    if any(dim is None for dim in array.reshape(-1)):
        return None
    return [array.astype(np.int64)]


def _dims(value: ir.Value | None) -> list[int | None] | None:
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else None for dim in value.shape]


def _shape(node: ir.Node) -> list[int | None] | None:
    """What a `Shape` node gives, None for a dimension that isn't static."""
    dims = _dims(node.inputs[0])
    if dims is None:
        return None
    start = node.attributes.get_int("start", 0)
    end = node.attributes.get_int("end", len(dims))
    return dims[slice(start, end)]


def _gather(node: ir.Node, dims: list[int | None]) -> object:
    tensor = constant(node.inputs[1])
    if tensor is None:
        return None
    indices = tensor.numpy()
    if indices.size == 0 or indices.min() < -len(dims) or indices.max() >= len(dims):
        return None
    return np.array(dims, dtype=object)[indices]


def _slice(node: ir.Node, dims: list[int | None]) -> object:
    if len(node.inputs) < 3:  # before opset 10 the limits are attributes
        return None
    limits = [constant(value) for value in node.inputs[1:]]
    if any(
        tensor is None and value is not None
        for tensor, value in zip(limits, node.inputs[1:], strict=True)
    ):
        return None
    start, end, _, step = [*(None if t is None else int(t.numpy()[0]) for t in limits), None, None][
        :4
    ]
    return dims[slice(start, end, step)]


def _compute(node: ir.Node, model: ir.Model) -> list[Array] | None:
    """Run one node on the CPU; None if that fails, or gives what can't be stored."""
    weights: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        tensor = constant(value)
        if value is not None and value.name and tensor is not None:
            weights[value.name] = ir.serde.serialize_tensor(tensor)
            weights[value.name].name = value.name
    wanted = [value.name or "" for value in node.outputs if value.name]
    graph = onnx.helper.make_graph(
        [ir.serde.serialize_node(node)],
        "node",
        [],
        [onnx.ValueInfoProto(name=name) for name in wanted],
        list(weights.values()),
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in model.opset_imports.items()]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    try:
        results = Session(proto.SerializeToString(), optimize="none").run({}, wanted)
    except UnsupportedError:
        return None
    arrays = [results.get(value.name or "") for value in node.outputs]
    kept = [array for array in arrays if isinstance(array, np.ndarray) and array.dtype != object]
    return kept if len(kept) == len(node.outputs) else None


def _replace(node: ir.Node, results: Sequence[Array]) -> None:
    graph = cast("ir.Graph", node.graph)
    for value, array in zip(node.outputs, results, strict=True):
        name = value.name
        tensor = ir.tensor(array, name=name)
        weight = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype))
        weight.const_value = tensor
        value.name = f"{name} (folded)"
        graph.register_initializer(weight)
        value.replace_all_uses_with(weight)
    graph.remove(node, safe=True)
