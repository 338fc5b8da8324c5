"""Opset and IR version are brought into the window that the shipped web runtime reads."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from builder.errors import UnsupportedError
from builder.passes.base import Pass, nodes_of
from builder.webruntime.support import OPSET_MAX

OPSET_MIN = 17
"""Oldest opset of normal form: it has LayerNormalization, and weights as inputs everywhere."""

IR_VERSION = 10
"""Read by every onnxruntime since 1.18; 14 and later are refused by onnxruntime-web 1.30."""

IR_OF_DTYPE = {
    ir.DataType.FLOAT4E2M1: 11,
    ir.DataType.FLOAT8E8M0: 12,
    ir.DataType.INT2: 13,
    ir.DataType.UINT2: 13,
}
"""Element types that came with a later IR version (onnx.proto's history of versions)."""


class ClampOpset(Pass):
    """Convert the opset to at least `OPSET_MIN` and at most `OPSET_MAX`.

    Where no operator's definition changed in between, only the number is. Otherwise onnx's own
    converter does it; its result counts only if it is checked afterwards. It crashes on other
    domains and leaves subgraphs alone, so graphs that have either keep their opset.

    Raises:
        UnsupportedError: The opset is too new and can't be converted down.
    """

    step = "convert opset"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert, or keep and say why."""
        have = model.opset_imports.get("")
        if have is None:  # no standard operator at all
            model.opset_imports[""] = OPSET_MIN
            return ir.passes.PassResult(model, True)
        want = min(max(have, OPSET_MIN), OPSET_MAX)
        if want == have:
            return ir.passes.PassResult(model, False)
        if _unchanged(model, have, want):
            _relabel(model, want)
            self.event("info", f"opset {have} became {want}: no operator of the graph changed")
            return ir.passes.PassResult(model, True)
        reason = _obstacle(model) or _convert(model, want)
        if reason:
            self._give_up(have, want, reason)
            return ir.passes.PassResult(model, False)
        self.event("info", f"opset {have} became {want}")
        return ir.passes.PassResult(model, True)

    def _give_up(self, have: int, want: int, reason: str) -> None:
        if have > OPSET_MAX:
            raise UnsupportedError(
                "graph",
                f"its opset {have} is newer than {OPSET_MAX}, the newest that the web runtime "
                f"reads, and converting it down fails: {reason}",
                f"Export the model with opset {OPSET_MAX} or older.",
            )
        self.event("warning", f"the graph keeps opset {have}: converting to {want} fails: {reason}")


class ClampIR(Pass):
    """Set the IR version: the oldest that the graph's element types allow, from `IR_VERSION` up."""

    step = "set IR version"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Set it; a graph that is valid in an older version is so in this one."""
        dtypes = {value.dtype for graph in model.graphs() for value in graph.initializers.values()}
        dtypes |= {value.dtype for node in nodes_of(model) for value in node.outputs}
        needed = [IR_OF_DTYPE[dtype] for dtype in dtypes if dtype in IR_OF_DTYPE]
        before, model.ir_version = model.ir_version, max([IR_VERSION, *needed])
        return ir.passes.PassResult(model, before != model.ir_version)


def _relabel(model: ir.Model, version: int) -> None:
    model.opset_imports[""] = version
    for node in nodes_of(model):
        if node.domain == "":
            node.version = None


def _unchanged(model: ir.Model, have: int, want: int) -> bool:
    """Whether every standard operator of the graph has one definition in both opsets."""
    newest = onnx.defs.onnx_opset_version()
    if max(have, want) > newest:
        return False
    for node in nodes_of(model):
        if node.domain != "":
            continue
        try:
            old = onnx.defs.get_schema(node.op_type, have, "")
            new = onnx.defs.get_schema(node.op_type, want, "")
        except onnx.defs.SchemaError:
            return False
        if old.since_version != new.since_version:
            return False
    return True


def _obstacle(model: ir.Model) -> str:
    """Why onnx's converter isn't even tried, or ""."""
    for node in nodes_of(model):
        if node.domain != "":
            return f"onnx's converter doesn't know the operator {node.domain}.{node.op_type}"
        if node.graph is not model.graph:
            return "onnx's converter doesn't convert subgraphs"
    return ""


def _convert(model: ir.Model, version: int) -> str:
    """Replace the graph by the converted one; what went wrong, or ""."""
    try:
        converted = onnx.version_converter.convert_version(ir.to_proto(model), version)
        fresh = ir.from_proto(converted)
    except Exception as error:  # the C++ converter raises RuntimeError and its own classes
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return lines[0].rpartition(" failed: ")[2].rstrip(".")  # without onnx's own file and line
    _keep_signature(model.graph, fresh.graph)
    model.graph = fresh.graph
    return ""


def _keep_signature(old: ir.Graph, new: ir.Graph) -> None:
    """The converter runs shape inference, which writes what it found over declared shapes."""
    for before, after in zip((*old.inputs, *old.outputs), (*new.inputs, *new.outputs), strict=True):
        after.type, after.shape = before.type, before.shape
