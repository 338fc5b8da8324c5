"""What a device with 16-bit floats computes, on a CPU that has none.

onnxruntime's CPU provider runs a half graph by casting to fp32 and back, and drops casts between
two of its nodes: values in between are neither rounded nor do they overflow. Here every value that
is half in a graph becomes an fp32 one that is rounded to half by two casts, fp32 to fp16 to fp32,
which onnxruntime keeps at every level of optimization, since the first one loses bits. (It drops
only such pairs as it has inserted itself.) So fp32 kernels work on halves and give halves.

Sums inside a node stay in fp32: in which order and type a GPU adds up differs from one to another.
`builder.precision.ranges` bounds those.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import onnx_ir as ir

from builder.passes.base import names_of, nodes_of
from builder.precision import half_ops as ops

FULL, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16

EXACT = (
    ops.MOVERS
    | frozenset("Abs Ceil Clip Floor GlobalMaxPool Max MaxPool Min Neg Relu".split())
    | frozenset(("ReduceMax", "ReduceMin", "If", "Loop", "Scan"))
)
"""Give halves for halves without rounding: they choose or move, or a node inside them rounds."""

MONOTONE = frozenset(("Clip", "Relu"))
"""Rounding before them and after them is the same: where nothing else reads what goes in, it comes
after, as in kernels that do both at once, and the fp32 kernel of the CPU can do that too."""

TYPES = ("to", "dtype", "output_dtype")
"""Attributes that name the type of what a node gives."""


def emulated(model: ir.Model) -> ir.Model:
    """An fp32 graph for onnxruntime's CPU provider that rounds wherever a half graph does.

    Args:
        model: With nodes in half, in whatever graphs; unchanged. Values must have types.

    Returns:
        A copy with the signature of `model`. Its weights take 4 bytes an element.
    """
    copy = model.clone()
    _Emulation(copy).run()
    return copy


class _Emulation:
    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._names = names_of(model)

    def run(self) -> None:
        graphs, nodes = tuple(self._model.graphs()), tuple(nodes_of(self._model))
        given = [value for value in self._model.graph.inputs if value.dtype == HALF]
        wanted = [value.dtype for value in self._model.graph.outputs]
        halves = {value for node in nodes for value in node.outputs if value.dtype == HALF}
        inside = {v for graph in graphs for v in (*graph.inputs, *graph.initializers.values())}
        for value in (*halves, *(v for v in inside.difference(given) if v.dtype == HALF)):
            _widen(value)
        rough: set[ir.Value] = set()
        for node in nodes:
            _retype(node)
            exact = node.domain == "" and node.op_type in EXACT
            if exact and not any(value in rough for value in node.inputs):
                continue
            for value in halves.intersection(node.outputs):
                if _rounded_later(value):
                    rough.add(value)
                elif isinstance(value.type, ir.TensorType):
                    self._behind(value, HALF, FULL)
        for value in given:
            self._behind(value, FULL)
        for index, dtype in enumerate(wanted):
            output = self._model.graph.outputs[index]
            if dtype == HALF and output.dtype != HALF:
                self._behind(output, HALF, last=True)

    def _behind(self, value: ir.Value, *dtypes: ir.DataType, last: bool = False) -> None:
        """Put casts behind a value: they take its readers, unless they come last, and its name
        and place if it is an output.
        """
        graph, producer = value.graph, value.producer()
        reads = () if last else value.uses()
        casts: list[ir.Node] = []
        for dtype in dtypes:
            source = casts[-1].outputs[0] if casts else value
            cast = ir.node("Cast", [source], {"to": int(dtype)}, num_outputs=1)
            output = cast.outputs[0]
            output.type, output.shape = ir.TensorType(dtype), value.shape
            output.name = self._fresh(f"{value.name}_{dtype.name.lower()}")
            cast.name = self._fresh(f"{output.name}_Cast")
            casts.append(cast)
        if producer is not None:
            producer.append(casts)
        elif graph is not None:
            graph[0].prepend(casts)
        result = casts[-1].outputs[0]
        for reader, index in reads:
            reader.replace_input_with(index, result)
        if value.is_graph_output() and not value.is_graph_input() and graph is not None:
            for index, output in enumerate(graph.outputs):
                if output is value:
                    graph.outputs[index] = result
            name, value.name = value.name, self._fresh(f"{value.name}_before")
            result.name = name

    def _fresh(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _widen(value: ir.Value) -> None:
    # A clone shares its types.
    value.type = deepcopy(value.type)
    value.dtype = FULL
    if value.const_value is not None:
        array = value.const_value.numpy().astype(np.float32)
        value.const_value = ir.tensor(array, name=value.name)


def _retype(node: ir.Node) -> None:
    """Let attributes that name or hold halves name and hold fp32."""
    for name in TYPES:
        if node.attributes.get_int(name, 0) == HALF:
            node.attributes[name] = ir.AttrInt64(name, int(FULL))
    for name, attribute in tuple(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype == HALF:
                wide = ir.tensor(tensor.numpy().astype(np.float32))
                node.attributes[name] = ir.AttrTensor(name, wide)


def _rounded_later(value: ir.Value) -> bool:
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return False
    reader, index = next(iter(uses))
    producer = value.producer()
    return (
        producer is not None
        and reader.graph is producer.graph
        and reader.domain == ""
        and reader.op_type in MONOTONE
        and index == 0
    )
