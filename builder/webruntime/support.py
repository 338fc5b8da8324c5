"""What the pinned web runtime can run: versions, element types, and where each operator runs.

The Python package onnxruntime can't be asked: it runs float64, int16, strings and newer versions of
operators, all of which the web runtime was built without. `operators.txt` holds what the web
runtime itself answered (see `tools/measure_operators.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import onnx
import onnx_ir as ir

from builder.errors import UnsupportedError

OPSET_MIN = 7
"""Oldest opset that onnxruntime still runs."""

OPSET_MAX = 26
IR_MAX = 13
"""Newest opset and IR version that onnxruntime-web 1.30 loads (measured)."""

OPSET_GPU = 21
"""Newest opset in which the WebGPU provider of onnxruntime-web 1.30 is complete: for most operators
that opset 22 and later define anew (pooling, deconvolution, trigonometry) it has the older
definition only, and from 25 on convolutions are surrounded by transposes on the CPU (measured)."""

DOMAINS = ("", "ai.onnx", "com.microsoft")
"""Domains of which the web runtime has operators."""

REMEDIES = {
    "ai.onnx.ml": "This operator isn't among those that are written anew with standard ones: keep "
    "the step outside, and give the model what it makes.",
    "com.microsoft.nchwc": "Give the model as it was before onnxruntime optimised it.",
}
"""What to do about operators of other domains, where something can be said."""

PLACELESS = {"Constant", "Identity", "Dropout", "Shape", "Size"}
"""Operators that no provider computes: folded or removed when a session is created, or metadata."""

RANDOM = {"RandomNormal", "RandomUniform"}
"""Operators that need no input and yet aren't constant."""

NUMPY = {"float": "float32", "double": "float64"}
"""Names for people, where ONNX has its own."""

CONVERSIONS = {"Cast", "CastLike"}
"""Operators whose kernels depend on the type of their output too."""

DATA_INPUT = {"Where": 1}
"""Which input has the type that kernels are made for, where it isn't the first."""

TABLE = Path(__file__).with_name("operators.txt")


@dataclass(frozen=True)
class Kernels:
    """Element types of one version of an operator, by ONNX's names; each is in one of three.

    Attributes:
        webgpu: Has a WebGPU kernel, and a WASM one.
        wasm: Has a WASM kernel only.
        refused: Has none.
    """

    webgpu: frozenset[str]
    wasm: frozenset[str]
    refused: frozenset[str]

    @property
    def runs(self) -> bool:
        """Whether the web runtime has the operator at all."""
        return bool(self.webgpu or self.wasm)


@cache
def kernels() -> dict[tuple[str, int], Kernels]:
    """The table, by operator (with its domain, unless that is the standard one) and version."""
    table = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        key, _, columns = line.partition(":")
        operator, version = key.split()
        types = [frozenset(column.split()) for column in columns.split("|")]
        table[operator, int(version)] = Kernels(*types)
    return table


@cache
def webgpu_operators() -> frozenset[tuple[str, str]]:
    """(domain, operator) of everything that has a WebGPU kernel in some version and type."""
    return frozenset(
        (name.rpartition(".")[0], name.rpartition(".")[2])
        for (name, _), found in kernels().items()
        if found.webgpu
    )


def operator(node: ir.Node) -> str:
    """A node's operator, with its domain unless that is the standard one."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def cpu_operators(model: ir.Model) -> list[str]:
    """Operators of a graph that the web runtime runs on the CPU under WebGPU, sorted.

    Each costs copies between GPU and CPU. What is folded when a session is created, and integer
    arithmetic on shapes, which belongs on the CPU, isn't listed. Types should have been inferred.
    """
    folded: set[ir.Value] = set()
    found = set()
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if _is_folded(node, folded):
            folded.update(node.outputs)
        elif node.op_type not in PLACELESS and not _on_gpu(model, node):
            found.add(operator(node))
    return sorted(found)


def check(model: ir.Model) -> None:
    """Refuse a graph that the web runtime can't run, whatever is done to it.

    IR versions and opsets that are merely too new are brought down later, and old ones up: an
    operator is refused only if its own version and the one after that both have no kernel. Types
    that were never inferred are taken for good.

    Raises:
        UnsupportedError: Names the node, why, and what to do.
    """
    opset = _opset(model)
    newest = onnx.defs.onnx_opset_version()
    if opset < OPSET_MIN:
        raise UnsupportedError(
            "graph",
            f"its opset {opset} is older than {OPSET_MIN}",
            f"Export the model again, with opset {OPSET_MIN} to {OPSET_MAX}.",
        )
    if opset > newest or model.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            "graph",
            f"its opset {opset} and IR version {model.ir_version} go beyond {newest} and "
            f"{onnx.IR_VERSION}, the newest known here",
            f"Export the model with opset {OPSET_MAX} and IR version {IR_MAX}, or older.",
        )
    for node in _nodes(model):
        _check_node(model, node)


def _check_node(model: ir.Model, node: ir.Node) -> None:
    name = node.name or (node.outputs[0].name if node.outputs else "")
    what = f"node '{name}' ({operator(node)})"
    if (node.domain, node.op_type, node.overload) in model.functions:
        return
    if node.domain not in DOMAINS:
        raise UnsupportedError(
            what,
            f"the web runtime has no operators of the domain '{node.domain}'",
            REMEDIES.get(node.domain, "Export the model with standard operators."),
        )
    if node.domain in ("", "ai.onnx") and _since(model, node) is None:
        raise UnsupportedError(
            what,
            f"opset {_opset(model)} has no such operator",
            "Export the model with standard operators.",
        )
    if node.op_type in PLACELESS:
        return
    known = [found for found in _versions(model, node) if found is not None]
    if known and not any(found.runs for found in known):
        raise UnsupportedError(
            what, "the web runtime has no kernel for it", "Replace it by other operators."
        )
    for dtype in _types(node):
        if known and all(dtype in found.refused for found in known):
            raise UnsupportedError(
                what,
                f"the web runtime has no kernel for it with elements of type "
                f"{NUMPY.get(dtype, dtype)}",
                "Export the model in float32 and with int32 or int64 integers.",
            )


def _is_folded(node: ir.Node, folded: set[ir.Value]) -> bool:
    """Whether nothing of a node is left at run time, or only integers made of shapes."""
    if node.op_type in RANDOM:
        return False
    inputs = [value for value in node.inputs if value is not None]
    fixed = all(value.const_value is not None or value in folded for value in inputs)
    if node.op_type in {"Shape", "Size"}:
        return True
    constant = all(value.const_value is not None for value in inputs)
    whole = all(value.dtype is None or value.dtype.is_integer() for value in node.outputs)
    return fixed and (constant or whole)


def _on_gpu(model: ir.Model, node: ir.Node) -> bool:
    found = kernels().get((operator(node), _since(model, node) or 1))
    if found is None or not found.webgpu:
        return False
    return not any(dtype in found.wasm | found.refused for dtype in _types(node))


def _types(node: ir.Node) -> list[str]:
    """Element types that the choice of a kernel depends on, as far as they are known."""
    index = DATA_INPUT.get(node.op_type, 0)
    values = [node.inputs[index] if len(node.inputs) > index else None]
    if node.op_type in CONVERSIONS:
        values.append(node.outputs[0])
    return [value.dtype.name.lower() for value in values if value is not None and value.dtype]


def _versions(model: ir.Model, node: ir.Node) -> list[Kernels | None]:
    """Kernels for the node as it is, and as it will be when its opset is brought up or down."""
    since = [_since(model, node), _since(model, node, OPSET_GPU)]
    return [kernels().get((operator(node), version or 1)) for version in since]


def _since(model: ir.Model, node: ir.Node, opset: int | None = None) -> int | None:
    """The version of a node's definition; None if its opset has none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    imported = model.opset_imports.get(node.domain, 1) if domain else _opset(model)
    return _schema_version(node.op_type, (opset if not domain else None) or imported, domain)


@cache
def _schema_version(name: str, opset: int, domain: str) -> int | None:
    if name == "SimplifiedLayerNormalization" and not domain:
        return 1  # onnxruntime's own, which it put into the standard domain
    try:
        return int(onnx.defs.get_schema(name, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return None


def _opset(model: ir.Model) -> int:
    imports = model.opset_imports
    return imports.get("", imports.get("ai.onnx", OPSET_GPU))


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from ir.traversal.RecursiveGraphIterator(model.graph)
    for function in model.functions.values():
        yield from ir.traversal.RecursiveGraphIterator(function.graph)
