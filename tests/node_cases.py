"""The operator test cases of onnx's own backend suite, as small models with known right values."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases

from builder.errors import OnnxsiteError
from builder.model import Array, Model, Provenance, Reference, Signature
from builder.session import Session


@dataclass(frozen=True, eq=False)
class Case:
    """One operator case that has a float somewhere and that the CPU provider can run.

    Attributes:
        name: As onnx calls it.
        proto: The model.
        inputs: Of its first data set, by name.
        expected: The right outputs for them, as onnx has them.
    """

    name: str
    proto: onnx.ModelProto
    inputs: dict[str, Array]
    expected: dict[str, Array]

    def model(self) -> Model:
        """A fresh model of it."""
        graph = ir.from_proto(self.proto)
        return Model(graph, Signature.of(graph.graph), Provenance(self.name))

    def reference(self) -> Reference:
        """Its inputs with the fp32 outputs on the CPU."""
        return Reference("case", self.inputs, Session(self.model().ir).run(self.inputs))

    def with_weights(self) -> Case:
        """The same case as an exporter writes it: all inputs but the first are weights."""
        proto = onnx.ModelProto.FromString(self.proto.SerializeToString())
        first, *others = proto.graph.input
        del proto.graph.input[:]
        proto.graph.input.append(first)
        for value in others:
            if value.name in self.inputs and value.type.HasField("tensor_type"):
                array = self.inputs[value.name]
                proto.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            else:
                proto.graph.input.append(value)
        listed = {value.name for value in proto.graph.input}
        inputs = {name: array for name, array in self.inputs.items() if name in listed}
        return replace(self, proto=proto, inputs=inputs)


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


def names() -> list[str]:
    """Cases of floats, sorted."""
    return sorted(name for name, (proto, *_) in protos().items() if _has_floats(proto))


def case(name: str) -> Case | None:
    """One case; None if it needs a newer runtime, or types that can't cross into the web one."""
    proto, data, results = protos()[name]
    ends = _arrays(proto.graph.input, data), _arrays(proto.graph.output, results)
    found = Case(name, proto, *ends)
    try:
        found.reference()
    except OnnxsiteError:
        return None
    return found


def cases(step: int = 1) -> Iterator[Case]:
    """Every `step`-th case of floats, in the order of names."""
    for name in names()[::step]:
        if (found := case(name)) is not None:
            yield found


def _arrays(values: Iterable[onnx.ValueInfoProto], data: Sequence[Any]) -> dict[str, Array]:
    return {
        value.name: np.asarray(array)
        for value, array in zip(values, data, strict=False)
        if isinstance(array, np.ndarray | np.generic)
    }


def _has_floats(proto: onnx.ModelProto) -> bool:
    return any(
        value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        for value in (*proto.graph.input, *proto.graph.output)
    )
