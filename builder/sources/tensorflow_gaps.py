"""Write operators of TensorFlow that tf2onnx leaves as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import onnx

from builder.errors import UnsupportedError
from builder.sources import ends
from builder.sources.writer import Writer

KNOWN = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Domains whose operators are judged later."""


def _erfc(w: Writer, node: onnx.NodeProto) -> None:
    w.op("Sub", w.constant(1.0), w.op("Erf", node.input[0]), to=node.output[0])


def _expm1(w: Writer, node: onnx.NodeProto) -> None:
    w.op("Sub", w.op("Exp", node.input[0]), w.constant(1.0), to=node.output[0])


def _log1p(w: Writer, node: onnx.NodeProto) -> None:
    w.op("Log", w.op("Add", node.input[0], w.constant(1.0)), to=node.output[0])


def _inv(w: Writer, node: onnx.NodeProto) -> None:
    w.op("Reciprocal", node.input[0], to=node.output[0])


def _gelu(w: Writer, node: onnx.NodeProto) -> None:
    x = node.input[0]
    if any(a.name == "approximate" and a.i for a in node.attribute):
        cube = w.op("Mul", w.op("Mul", x, x), w.op("Mul", x, w.constant(0.044715)))
        bent = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), w.constant(math.sqrt(2 / math.pi))))
    else:
        bent = w.op("Erf", w.op("Div", x, w.constant(math.sqrt(2))))
    share = w.op("Add", bent, w.constant(1.0))
    w.op("Mul", w.op("Mul", x, share), w.constant(0.5), to=node.output[0])


MENDED: Mapping[str, Callable[[Writer, onnx.NodeProto], None]] = {
    "Erfc": _erfc,  # exact GELU
    "Expm1": _expm1,
    "Inv": _inv,
    "Log1p": _log1p,
    "TFL_GELU": _gelu,
}
"""All of one input and one output, in float32."""


def mend(proto: onnx.ModelProto, opset: int) -> None:
    """Write what can be written in the main graph, and refuse what is left.

    Raises:
        UnsupportedError: Names all operators that are left.
    """
    graph = proto.graph
    taken = {name for node in ends.nodes_of(graph) for name in (node.name, *node.output)}
    taken |= {named.name for named in (*graph.initializer, *graph.input)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type not in MENDED:
            nodes.append(node)
            continue
        writer = Writer(node.name, opset, taken)
        MENDED[node.op_type](writer, node)
        nodes += writer.nodes
        graph.initializer.extend(writer.constants)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    left = sorted({node.op_type for node in ends.nodes_of(graph) if not _is_known(node)})
    if left:
        raise UnsupportedError(
            "the graph",
            f"tf2onnx has nothing for the operators {', '.join(left)}",
            "Write them with others, or keep that step outside of the model.",
        )


def _is_known(node: onnx.NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return domain in KNOWN and (domain != "" or onnx.defs.has(node.op_type))
