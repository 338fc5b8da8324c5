"""Half precision where it is right, fp32 where it isn't, and casts in between.

An own pass rather than onnxconverter-common's: that one, measured, writes invalid graphs for inner
casts, shared weights, ConstantOfShape, typed constants, subgraphs that capture, outputs that are
read inside, and unnamed nodes. Here types follow from one decision for each node
(`builder.precision.half_plan`), and casts are put wherever two neighbours disagree.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from builder.model import Event
from builder.passes.base import constant, names_of, nodes_of
from builder.passes.clean import RemoveUnused
from builder.precision import half_ops as ops
from builder.precision.half_plan import FOLDED, MASK, MOVES, Plan, plan
from builder.precision.half_types import exempt, is_float
from builder.precision.int8 import has_taps
from builder.precision.ranges import LIMIT, Ranges
from builder.precision.rounding import to_half

FULL, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16

LAYERS = frozenset(
    "Conv ConvTranspose Gemm MatMul Softmax LayerNormalization ReduceMean GlobalAveragePool Pow "
    "Div Sqrt Exp Sigmoid Tanh Erf Gelu Einsum InstanceNormalization MatMulNBits".split()
)
"""Operators whose precision is worth trying: the others add at most one rounding."""

STORED_ELEMENTS = 256
"""Smaller weights stay in fp32 where that is computed in: a cast costs as much as it saves."""

SHOWN = 3
"""How many node names an event lists."""


@dataclass(frozen=True)
class Kept:
    """A node that stays in fp32, and why: a category, and what was measured."""

    name: str
    op_type: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Halved:
    """A converted graph.

    Attributes:
        ir: The graph.
        layers: Names of nodes that a retreat may keep in fp32.
        kept: The nodes that stay in fp32.
        events: What sums them up.
    """

    ir: ir.Model
    layers: tuple[str, ...]
    kept: tuple[Kept, ...]
    events: tuple[Event, ...]


def convert(model: ir.Model, ranges: Ranges, wider: frozenset[str] = frozenset()) -> Halved:
    """Convert a copy of an fp32 graph to half where that is right.

    The signature stays fp32. Weights of nodes that compute in half are rounded to fp16; nodes that
    stay in fp32 keep their exact weights, in a copy of their own if the two share one. Masks that
    only a Softmax sees become finite.

    Args:
        model: In normal form, or with weights stored in 8 or 4 bits; unchanged.
        ranges: Of its activations, by `builder.precision.ranges.measure`.
        wider: Names of nodes that stay in fp32 whatever their ranges are.
    """
    copy = model.clone()
    decided = plan(copy, ranges, wider)
    layers = _layers(copy, decided)
    _Rewriter(copy, decided, ranges).run()
    kept = _kept(decided)
    return Halved(copy, layers, kept, tuple(_events(kept, len(decided.half))))


def store(model: ir.Model, ranges: Ranges, wider: frozenset[str] = frozenset()) -> Halved:
    """The twin of `convert` that computes in fp32, for GPUs without 16-bit floats and for WASM.

    The very weights that `convert` rounds are stored in fp16, in the same bytes, and cast while
    the session is made. Nodes that stay in fp32 there have their exact weights here too.

    Args:
        model: In normal form; unchanged.
        ranges: Of its activations.
        wider: As for `convert`.
    """
    copy = model.clone()
    decided = plan(copy, ranges, wider)
    layers = _layers(copy, decided)
    _Rewriter(copy, decided, ranges).store()
    return Halved(copy, layers, _kept(decided), ())


def _layers(model: ir.Model, decided: Plan) -> tuple[str, ...]:
    """In the order of the graph: a set has none, and a ladder must be the same in each build."""
    half = (node for node in nodes_of(model) if node in decided.half)
    return tuple(node.name or "" for node in half if node.op_type in LAYERS)


def _kept(decided: Plan) -> tuple[Kept, ...]:
    return tuple(
        Kept(node.name or "", node.op_type, *reason)
        for node, reason in decided.kept.items()
        if reason[0] != FOLDED
    )


class _Rewriter:
    def __init__(self, model: ir.Model, decided: Plan, ranges: Ranges) -> None:
        self._model, self._plan, self._ranges = model, decided, ranges
        self._halves: set[ir.Value] = set()
        self._cast: dict[tuple[ir.Value, ir.DataType, bool], ir.Value] = {}
        self._opset = model.opset_imports.get("", 1)
        self._names = names_of(model)

    def run(self) -> None:
        """Retype the outputs of half nodes, then put casts wherever a reader wants another type."""
        nodes = tuple(nodes_of(self._model))
        for node in nodes:
            if node in self._plan.half:
                self._retype_outputs(node)
        for graph in tuple(self._model.graphs()):
            self._restore_outputs(graph)
        for node in nodes:
            if node.op_type in ops.NEUTRAL and node.domain == "":
                continue
            spared = exempt(node, self._opset)
            for index, value in enumerate(node.inputs):
                if value is None or not (value in self._halves or is_float(value)):
                    continue
                half = node in self._plan.half and index not in spared
                wanted = HALF if half else FULL
                if wanted != value.dtype:
                    saturate = half and self._overflows_as_mask(node, value)
                    node.replace_input_with(index, self._as(value, wanted, saturate))
        self._model.graph.sort()
        RemoveUnused()(self._model)

    def store(self) -> None:
        """Let half nodes read their weights from fp16, and change nothing else."""
        for node in tuple(nodes_of(self._model)):
            spared = exempt(node, self._opset)
            if node not in self._plan.half or node.op_type in ops.NEUTRAL:
                continue
            for index, value in enumerate(node.inputs):
                tensor = constant(value)
                if value is None or tensor is None or not is_float(value) or index in spared:
                    continue
                if tensor.size < STORED_ELEMENTS:
                    continue
                saturate = self._overflows_as_mask(node, value)
                half = self._as(value, HALF, saturate)
                node.replace_input_with(index, self._full(half))
        RemoveUnused()(self._model)

    def _full(self, half: ir.Value) -> ir.Value:
        """A stored weight in fp32 again: one cast for all its readers."""
        key = half, FULL, False
        if key not in self._cast:
            cast = ir.node("Cast", [half], {"to": int(FULL)}, num_outputs=1)
            cast.name = f"{half.name}_full_Cast"
            output = cast.outputs[0]
            output.name = self._fresh(f"{half.name}_full")
            output.type, output.shape = ir.TensorType(FULL), half.shape
            self._model.graph.insert_before(self._model.graph[0], cast)
            self._cast[key] = output
        return self._cast[key]

    def _retype_outputs(self, node: ir.Node) -> None:
        for value in node.outputs:
            if is_float(value):
                value.type = ir.TensorType(HALF)
                self._halves.add(value)
        if node.op_type == "Cast":
            node.attributes["to"] = ir.AttrInt64("to", int(HALF))

    def _restore_outputs(self, graph: ir.Graph) -> None:
        """Outputs of the graph are fp32 under their own names, and those of bodies are fp32."""
        for index, value in enumerate(graph.outputs):
            if value not in self._halves:
                continue
            full = self._as(value, FULL, False)
            if graph is self._model.graph:
                name, value.name = value.name, self._fresh(f"{value.name}_half")
                full.name = name
            graph.outputs[index] = full

    def _overflows_as_mask(self, node: ir.Node, value: ir.Value) -> bool:
        found = self._ranges.values.get(value.name or "")
        return found is not None and found.low < -LIMIT and node.outputs[0] in self._plan.masked

    def _as(self, value: ir.Value, dtype: ir.DataType, saturate: bool) -> ir.Value:
        """The value in another type: one cast, or one copy of a weight, for all its readers."""
        key = value, dtype, saturate
        if key not in self._cast:
            tensor = constant(value)
            self._cast[key] = (
                self._weight(value, tensor, saturate)
                if tensor is not None
                else self._insert(value, dtype, saturate)
            )
        return self._cast[key]

    def _weight(self, value: ir.Value, tensor: ir.TensorProtocol, saturate: bool) -> ir.Value:
        array = tensor.numpy()
        name = self._fresh(f"{value.name}_half")
        finite = np.maximum(array, MASK) if saturate else array
        halved = ir.tensor(to_half(finite, taps=has_taps(value)))
        weight = ir.Value(name=name, type=ir.TensorType(HALF), shape=ir.Shape(array.shape))
        weight.const_value = halved
        halved.name = name
        self._model.graph.register_initializer(weight)
        return weight

    def _insert(self, value: ir.Value, dtype: ir.DataType, saturate: bool) -> ir.Value:
        nodes, source = [], value
        if saturate:
            nodes.append(self._floor(value))
            source = nodes[0].outputs[0]
        cast = ir.node("Cast", [source], {"to": int(dtype)}, num_outputs=1)
        nodes.append(cast)
        suffix = "half" if dtype == HALF else "float"
        for node, tail in zip(nodes, (f"{suffix}_floor", suffix)[-len(nodes) :], strict=True):
            node.name = f"{value.name}_{tail}_{node.op_type}"
            node.outputs[0].name = self._fresh(f"{value.name}_{tail}")
            node.outputs[0].shape = value.shape
        cast.outputs[0].type = ir.TensorType(dtype)
        producer = value.producer()
        if producer is not None:
            producer.append(nodes)
        else:
            graph = value.graph or self._model.graph
            graph.insert_before(graph[0], nodes)
        return cast.outputs[0]

    def _floor(self, value: ir.Value) -> ir.Node:
        """A mask that fp32 nodes computed, cut off below before half would overflow."""
        name = self._fresh(f"{value.name}_mask")
        limit = ir.Value(name=name, type=ir.TensorType(FULL), shape=ir.Shape([]))
        limit.const_value = ir.tensor(np.array(MASK, np.float32), name=name)
        self._model.graph.register_initializer(limit)
        node = ir.node("Max", [value, limit], num_outputs=1)
        node.outputs[0].type = ir.TensorType(FULL)
        return node

    def _fresh(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _events(kept: tuple[Kept, ...], halved: int) -> list[Event]:
    """One event for each reason and operator, with the largest figure and a few names.

    Nodes that only move data follow from the others, so all of them share one event.
    """
    events = [Event("info", "fp16", f"{halved} nodes compute in half, {len(kept)} stay in fp32")]
    groups: dict[tuple[str, str], list[Kept]] = defaultdict(list)
    for node in kept:
        groups[node.reason, "nodes" if node.reason == MOVES else node.op_type].append(node)
    for (reason, op_type), nodes in groups.items():
        figures = [node.detail for node in nodes if node.detail]
        worst = f" ({max(figures, key=float)})" if figures else ""
        shown = ", ".join(node.name for node in nodes[:SHOWN])
        rest = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
        text = f"{len(nodes)} {op_type} in fp32: {reason}{worst}: {shown}{rest}"
        events.append(Event("info", "fp16", text))
    return events
