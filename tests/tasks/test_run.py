"""Stages run in order, values flow by name, and the interface is what is left over."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from builder.errors import UsageError
from builder.model import Signature, names
from builder.prepost import Draft
from builder.tasks import Runner, interface, run_stages


def _stage(operator: str, inputs: list[str], output: str, default: float | None = None) -> ir.Model:
    g = Draft(output)
    values = [
        g.input(name, "float32", [], default=[default] if default is not None and i else None)
        for i, name in enumerate(inputs)
    ]
    g.output(g.add(operator, *values), output, "float32", [])
    return g.model()


PRE = _stage("Neg", ["raw"], "x")
MODEL = _stage("Add", ["x", "bias"], "y")
POST = _stage("Mul", ["y", "gain"], "result", default=10)


def test_values_flow_by_name_and_defaults_fill_in() -> None:
    got = run_stages(PRE, MODEL, POST, {"raw": np.array(3, "f4"), "bias": np.array(1, "f4")})
    assert list(got) == ["pre", "model", "post"]
    assert {name: float(a) for stage in got.values() for name, a in stage.items()} == {
        "x": -3,
        "y": -2,
        "result": -20,
    }


def test_a_given_value_goes_before_the_default() -> None:
    inputs = {"raw": np.array(3, "f4"), "bias": np.array(1, "f4"), "gain": np.array(2, "f4")}
    assert Runner(PRE, MODEL, POST).results(inputs) == {"result": -4}


def test_a_missing_input_is_named() -> None:
    with pytest.raises(UsageError, match="input 'bias'"):
        run_stages(PRE, MODEL, POST, {"raw": np.array(3, "f4")})


def test_the_interface_is_what_no_stage_makes_and_none_takes() -> None:
    got = interface(PRE, Signature.of(MODEL.graph), POST)
    assert got == Runner(PRE, MODEL, POST).interface
    assert names(got.inputs) == ["raw", "bias", "gain"]
    assert names(got.outputs) == ["result"]
    assert [spec.default for spec in got.inputs] == [None, None, (10.0,)]


def test_an_output_that_no_stage_takes_is_given_after_the_last_stages() -> None:
    got = interface(PRE, Signature.of(MODEL.graph), _stage("Neg", ["bias"], "negative"))
    assert names(got.outputs) == ["negative", "y"]


def test_a_model_alone_keeps_its_signature() -> None:
    signature = Signature.of(MODEL.graph)
    assert interface(None, signature, None) == signature
    assert list(
        run_stages(None, MODEL, None, {"x": np.array(1, "f4"), "bias": np.array(1, "f4")})
    ) == ["model"]
