"""The operator test cases of onnx's own backend suite, as small models with known right values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases

from builder.errors import OnnxsiteError
from builder.model import Array, Model, Provenance, Reference, Signature
from builder.session import Session


@dataclass(frozen=True)
class Case:
    """One operator case that has a float somewhere and that the CPU provider can run."""

    name: str
    proto: onnx.ModelProto
    inputs: dict[str, Array]

    def model(self) -> Model:
        """A fresh model of it."""
        graph = ir.from_proto(self.proto)
        return Model(graph, Signature.of(graph.graph), Provenance(self.name))

    def reference(self) -> Reference:
        """Its inputs with the fp32 outputs on the CPU."""
        return Reference("case", self.inputs, Session(self.model().ir).run(self.inputs))


@cache
def protos() -> dict[str, tuple[onnx.ModelProto, list[Any], list[Any]]]:
    """All cases by name, with the inputs and the outputs of their first data set.

    Once in a process: onnx registers the cases as it collects them, and refuses to do it again.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return {
        case.name: (case.model, list(case.data_sets[0][0]), list(case.data_sets[0][1]))
        for case in found
        if case.data_sets and case.model is not None
    }


def cases(step: int = 1) -> Iterator[Case]:
    """Every `step`-th case of floats, in the order of names."""
    names = sorted(name for name, (proto, *_) in protos().items() if _has_floats(proto))
    for name in names[::step]:
        proto, data, _ = protos()[name]
        inputs = {
            value.name: np.asarray(array)
            for value, array in zip(proto.graph.input, data, strict=False)
            if isinstance(array, np.ndarray | np.generic)
        }
        case = Case(name, proto, inputs)
        try:
            case.reference()
        except OnnxsiteError:
            continue  # needs a newer runtime, or types that can't cross into the web runtime
        yield case


def _has_floats(proto: onnx.ModelProto) -> bool:
    return any(
        value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        for value in (*proto.graph.input, *proto.graph.output)
    )
