"""Ways to convert a case of onnx's operator suite, and what comes of it: ours and stock tools."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir

import builder.precision
from builder import passes
from builder.errors import OnnxsiteError, UnsupportedError
from builder.model import Array
from builder.precision import FORMS, Form, Subject
from builder.session import Session
from builder.snr import snr_of
from tests.node_cases import Case

TOLERANCES = {"fp16": 35.0, "int8": 15.0, "q4": 8.0, "q8": 15.0, "uint8": 15.0}
"""dB, by what a tool's format starts with: the same for ours and for stock tools."""

OUTCOMES = {
    "right": "valid, and all outputs within the tolerance",
    "unchanged": "right because every operator and weight was left as it was",
    "refused": "stopped on purpose, with a reason",
    "unsorted": "right once its nodes are sorted: onnx's checker refuses it, onnxruntime doesn't",
    "invalid": "refused by onnx's checker or by onnxruntime, which took the source",
    "wrong": "an output off by more than the tolerance, or of another name or type",
    "crash": "any other exception, a dead process, a hang",
}
"""What may come of it, and what that means."""

UNSORTED = "must be topologically sorted"
"""What onnx's checker says of such a graph."""

Converted: TypeAlias = tuple[onnx.ModelProto, onnx.ModelProto]
"""What a tool was given, and what it made of it."""

Result: TypeAlias = tuple[str, str]
"""A key of `OUTCOMES`, and details."""


@dataclass(frozen=True)
class Tool:
    """One way to convert a case.

    Attributes:
        name: For people.
        format: What it makes; decides the tolerance.
        package: What must be installed.
        convert: Given a copy of its own.
    """

    name: str
    format: str
    package: str
    convert: Callable[[Case], Converted]

    @property
    def tolerance(self) -> float:
        """In dB."""
        return next(db for start, db in TOLERANCES.items() if self.format.startswith(start))


def ours(form: Form, case: Case) -> Converted:
    """Normal form and one of our forms; the normal form itself where the form has no point."""
    subject = normal(case)
    made = form.convert(subject, frozenset())
    return ir.to_proto(subject.ir), ir.to_proto(made.ir if made else subject.ir)


@lru_cache(maxsize=1)
def normal(case: Case) -> Subject:
    """The normal form, shared by all forms as in a build."""
    reference = case.reference()
    return Subject(passes.normalise(case.model(), probes=[reference.inputs]), [reference])


def half(module: str, case: Case, *, named: bool = False) -> Converted:
    """One of the two `float16` modules, perhaps after every node got a name."""
    tool = importlib.import_module(f"{module}.float16")
    given = onnx.ModelProto.FromString(case.proto.SerializeToString())
    for index, node in enumerate(given.graph.node if named else ()):
        node.name = node.name or f"node_{index}"
    return case.proto, tool.convert_float_to_float16(given, keep_io_types=True)


def dynamic_int8(case: Case) -> Converted:
    """Dynamic quantization by onnxruntime, int8."""
    from onnxruntime.quantization import quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantize_dynamic(onnx.ModelProto.FromString(case.proto.SerializeToString()), path)
        return case.proto, onnx.load(path)


def blocks_of_4_bits(case: Case) -> Converted:
    """4-bit quantization by onnxruntime, in blocks of 32."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    given = onnx.ModelProto.FromString(case.proto.SerializeToString())
    quantizer = MatMulNBitsQuantizer(given, bits=4, block_size=32)
    quantizer.process()
    return case.proto, quantizer.model.model


def tools() -> list[Tool]:
    """Ours by name, then the stock ones that are installed."""
    stock = [
        Tool(
            "onnxconverter-common",
            "fp16",
            "onnxconverter_common",
            partial(half, "onnxconverter_common"),
        ),
        Tool(
            "onnxconverter-common, nodes named first",
            "fp16",
            "onnxconverter_common",
            partial(half, "onnxconverter_common", named=True),
        ),
        Tool(
            "onnxruntime.transformers",
            "fp16",
            "onnxruntime",
            partial(half, "onnxruntime.transformers"),
        ),
        Tool("onnxruntime quantize_dynamic", "int8", "onnxruntime", dynamic_int8),
        Tool("onnxruntime MatMulNBits", "q4", "onnxruntime", blocks_of_4_bits),
    ]
    return [
        Tool("onnxsite", form.name, "builder", partial(ours, form))
        for form in FORMS
        if form.dtype != "fp32"
    ] + [tool for tool in stock if importlib.util.find_spec(tool.package)]


def attempt(tool: Tool, case: Case) -> Result:
    """Convert a case and judge what comes out."""
    try:
        given, made = tool.convert(case)
    except OnnxsiteError as error:
        return "refused", error.why
    except Exception as error:
        deliberate = isinstance(error, ValueError | NotImplementedError) and (
            f"/{tool.package}/" in traceback.extract_tb(error.__traceback__)[-1].filename
        )
        return "refused" if deliberate else "crash", describe(error)
    fault = checked(made)
    unsorted = UNSORTED in fault
    if unsorted:
        made = in_order(made)
        fault = checked(made)
    if fault and not checked(case.proto):
        return "invalid", fault
    try:
        # Copies: BatchNormalization in training mode writes into its inputs.
        copies = {name: array.copy() for name, array in case.inputs.items()}
        outputs = Session(made.SerializeToString()).run(copies)
    except UnsupportedError as error:
        return "invalid", error.why
    if fault := differs(case, outputs, tool.tolerance):
        return "wrong", fault
    if unsorted:
        return "unsorted", ""
    return "unchanged" if essence(given) == essence(made) else "right", ""


def in_order(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph, sorted."""
    model = ir.from_proto(proto)
    model.graph.sort()
    return ir.to_proto(model)


def checked(proto: onnx.ModelProto) -> str:
    """What onnx's checker says against a graph, or ""."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:
        return describe(error)
    return ""


def differs(case: Case, outputs: Mapping[str, Array], tolerance: float) -> str:
    """How outputs differ from the right ones, or ""."""
    for name, array in case.expected.items():
        got = outputs.get(name)
        if got is None or got.dtype != array.dtype:
            return "another name or type of an output"
        if (ratio := snr_of(array, got)) < tolerance:
            return f"{ratio:.0f} dB"
    return ""


def essence(proto: onnx.ModelProto) -> tuple[Counter[str], Counter[tuple[int, bytes]]]:
    """Operators and weights."""
    return (
        Counter(node.op_type for node in proto.graph.node),
        Counter(
            (tensor.data_type, onnx.numpy_helper.to_array(tensor).tobytes())
            for tensor in proto.graph.initializer
        ),
    )


def describe(error: Exception) -> str:
    """Class and first line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def lower_limits() -> None:
    """Sizes below which our conversions leave weights alone: else nothing here is large enough."""
    for module in pkgutil.iter_modules(builder.precision.__path__):
        part = importlib.import_module(f"builder.precision.{module.name}")
        for constant in vars(part):
            if constant.isupper() and constant.endswith("ELEMENTS"):
                setattr(part, constant, 2)
