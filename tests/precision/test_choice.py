"""What is worth shipping: nothing that another variant beats in size and in error."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from builder.model import Verdict
from builder.precision import FORMS, Outcome, dominated

FORM = {form.name: form for form in FORMS}
MODEL = ir.Model(ir.Graph([], [], nodes=[]), ir_version=10)


def outcome(name: str, size: int, snr: float, *, passed: bool = True) -> Outcome:
    verdict = Verdict("snr", snr, 0, passed, "", snr=snr)
    return Outcome(FORM[name], MODEL if passed else None, verdict, "", size)


FULL = [
    outcome("fp32", 1000, 120),
    outcome("fp16", 500, 60),
    outcome("fp16-half", 500, 55),
    outcome("int8", 260, 35),
    outcome("int8-wasm", 260, 30),
]


def test_each_step_down_in_size_and_up_in_error_ships() -> None:
    assert dominated([*FULL, outcome("q4", 180, 15), outcome("q4f16", 180, 15)]) == {}


@pytest.mark.parametrize(("size", "kept"), [(300, False), (250, False), (180, True)])
def test_a_larger_error_must_save_something(size: int, kept: bool) -> None:
    beaten = dominated([*FULL, outcome("q4", size, 15), outcome("q4f16", size, 15)])
    assert set(beaten) == (set() if kept else {"q4", "q4f16"})
    if not kept:
        assert beaten["q4"] == "int8 is better: 0.0 MB at 35.0 dB, q4 0.0 MB at 15.0 dB"


def test_a_fraction_of_a_decibel_is_chance() -> None:
    near = [outcome("fp32", 1000, 120), outcome("int8", 260, 31.1), outcome("q4", 230, 31.2)]
    assert dominated(near) == {}


@pytest.mark.parametrize("fast", [True, False])
def test_what_is_faster_on_wasm_stays_beside_what_is_smaller(fast: bool) -> None:
    better = outcome("q4", 200, 40)
    beaten = dominated([*(FULL if fast else FULL[:-1]), better])
    assert set(beaten) == (set() if fast else {"int8"})


def test_what_failed_beats_nothing() -> None:
    wrong = outcome("int8", 260, 90, passed=False)
    assert dominated([outcome("fp32", 1000, 120), outcome("fp16", 500, 60), wrong]) == {}


def test_fp32_is_never_beaten() -> None:
    assert dominated([outcome("fp32", 1000, 100), outcome("fp16", 500, 110)]) == {}


def test_where_sizes_on_the_wire_are_known_they_count() -> None:
    # Pruned int8 is as large as it was, and half of that on the way.
    weighed = [replace(entry, wire=entry.size) for entry in FULL[:3]]
    pruned = replace(outcome("int8", 260, 20), wire=130)
    q4 = replace(outcome("q4", 180, 15), wire=170)
    beaten = dominated([*weighed, pruned, q4])
    assert set(beaten) == {"q4", "q4f16"}
    assert beaten["q4"].startswith("int8 is better: 0.0 MB on the wire at 20.0 dB")
