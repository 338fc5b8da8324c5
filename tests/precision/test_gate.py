"""The gate: what ships, what is dropped, and the sentences that say so."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from builder import passes
from builder.model import Model, Provenance, Reference, Signature, Verdict
from builder.precision import (
    FORMS,
    Demand,
    Outcome,
    Subject,
    judge,
    make,
    selftest_minimum,
)
from builder.session import Session
from tests.conftest import convnet
from tests.precision.small import model, normal, operators, references

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def net() -> tuple[Model, list[Reference]]:
    graph = ir.from_proto(convnet())
    subject = passes.normalise(Model(graph, Signature.of(graph.graph), Provenance("net")))
    session = Session(subject.ir)
    feeds = [{"x": RNG.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(8)]
    return subject, [Reference(str(i), feed, session.run(feed)) for i, feed in enumerate(feeds)]


FORM = {form.name: form for form in FORMS}


def made(subject: Model, name: str, runs: list[Reference], demand: Demand) -> Outcome:
    outcome = make(Subject(subject, runs), FORM[name], demand)
    assert outcome is not None
    return outcome


def test_every_variant_of_a_healthy_net_ships(net: tuple[Model, list[Reference]]) -> None:
    subject, runs = net
    sizes = {}
    for name in ("fp32", "fp16", "fp16-half", "int8", "int8-half"):
        outcome = made(subject, name, runs, Demand("top1"))
        assert outcome.ir is not None, outcome.reason
        assert outcome.verdict is not None
        assert outcome.verdict.passed
        assert Signature.of(outcome.ir.graph) == subject.signature
        onnx.checker.check_model(ir.to_proto(outcome.ir), full_check=True)
        sizes[name] = outcome.size
        assert outcome.size == len(ir.to_proto(outcome.ir).SerializeToString())
    assert sizes["fp16"] < 0.55 * sizes["fp32"]
    assert sizes["int8"] < 0.55 * sizes["fp32"]


def test_a_form_without_a_point_is_not_made(net: tuple[Model, list[Reference]]) -> None:
    assert make(Subject(*net), FORM["int8-wasm"], Demand("top1")) is None


def test_a_tolerance_that_is_not_met_drops_the_variant(
    net: tuple[Model, list[Reference]],
) -> None:
    outcome = made(net[0], "int8", net[1], Demand("snr", tolerance=150))
    assert outcome.ir is None
    assert outcome.verdict is not None
    assert not outcome.verdict.passed
    assert outcome.reason.endswith("asked for 150.0 dB")


def test_sentences() -> None:
    reference = [{"y": np.array([[0, 1]] * 3 + [[1, 0]], np.float32)}]
    variant = [{"y": np.array([[0, 1]] * 4, np.float32)}]
    verdict = judge("int8", reference, variant, Demand("top1"))
    assert verdict.reason == "Top-1 agreement with fp32 75.0 %, asked for 95.0 %"
    assert verdict.max_abs_error == 1
    assert not verdict.passed


def test_agreement_alone_is_not_enough() -> None:
    reference = [{"y": np.array([[0, 1]], np.float32)}]
    verdict = judge("fp16", reference, [{"y": np.array([[0, 5]], np.float32)}], Demand("top1"))
    assert verdict.value == 1
    assert not verdict.passed
    assert verdict.reason.endswith("but outputs agree to -12.0 dB only, asked for 35 dB")


def test_an_error_that_is_asked_for_counts_beside_the_metric() -> None:
    reference = [{"y": np.array([[0, 1]], np.float32)}]
    variant = [{"y": np.array([[0, 1.05]], np.float32)}]  # 5 % off: 26 dB
    assert judge("int8", reference, variant, Demand("top1", max_error=0.06)).passed
    verdict = judge("int8", reference, variant, Demand("top1", max_error=0.04))
    assert not verdict.passed
    assert verdict.reason.endswith("but outputs agree to 26.0 dB only, asked for 28 dB")


def test_what_is_larger_than_asked_for_is_dropped(net: tuple[Model, list[Reference]]) -> None:
    outcome = made(net[0], "fp16", net[1], Demand("top1", max_size=100))
    assert outcome.ir is None
    assert "asked for at most 0.0 MB" in outcome.reason


def test_what_saves_nothing_is_dropped() -> None:
    subject = normal("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    runs = references(subject, {"x": np.ones(2, np.float32)})
    for name, reason in (
        ("fp16", "saves nothing"),
        ("int8", "saves nothing"),
        ("q4", "no product or tied table"),
    ):
        outcome = made(subject, name, runs, Demand("snr"))
        assert outcome.ir is None
        assert reason in outcome.reason


def test_an_invalid_graph_is_never_shipped() -> None:
    subject = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    runs = references(subject, {"x": np.ones(2, np.float32)})
    proto = ir.to_proto(subject.ir)
    proto.graph.node[0].op_type = "NoSuchOperator"
    broken = Model(ir.from_proto(proto), subject.signature, subject.provenance)
    outcome = made(broken, "fp32", runs, Demand("snr"))
    assert outcome.ir is None
    assert "NoSuchOperator" in outcome.reason


def one_bad_layer() -> tuple[Model, list[Reference]]:
    """Eight products in a row. The fourth makes some channels 60 times as large, the fifth undoes
    it: in 4 bits those two spoil the result."""
    rng = np.random.default_rng(1)
    weights = {f"w{i}": np.eye(256, dtype=np.float32) for i in range(8)}
    for array in weights.values():
        array += rng.normal(0, 0.02, array.shape).astype(np.float32)
    weights["w3"][::32] *= 60
    weights["w4"] = np.linalg.inv(weights["w3"].astype(np.float64)).astype(np.float32)
    steps = " ".join(
        f"y{i} = MatMul({'x' if i == 0 else f'y{i - 1}'}, w{i})" for i in range(8)
    ).replace("y7 =", "y =")
    subject = normal(f"g (float[n, 256] x) => (float[n, 256] y) {{ {steps} }}", weights)
    feeds = [{"x": rng.standard_normal((32, 256)).astype(np.float32)} for _ in range(4)]
    return subject, references(subject, *feeds)


def test_a_failed_gate_keeps_the_worst_layers_wider() -> None:
    subject, runs = one_bad_layer()
    outcome = made(subject, "q4", runs, Demand("snr", tolerance=16))
    assert outcome.ir is not None, outcome.reason
    assert not outcome.steps[0].verdict.passed
    assert outcome.steps[-1].verdict.passed
    assert outcome.steps[-1].verdict.snr >= 16
    # The two that are bad are in 8 bits, the others are still in 4.
    assert operators(outcome.ir).count("MatMulNBits") == 6
    assert {"w3_uint8", "w4_uint8"} <= set(outcome.ir.graph.initializers)
    assert any("tried" in event.message for event in outcome.events)
    assert outcome.size > outcome.steps[0].size


@pytest.mark.parametrize(
    ("name", "gate_snr", "probe_snr", "minimum"),
    [
        ("fp32", 200, 200, 50),
        ("fp32", 36, 38, 33),  # pruned or clustered
        ("fp16-half", 70, 70, 45),
        ("fp16-half", 45, 45, 30),
        ("fp16-half", 30, 30, 20),
        ("fp16-half", 12, 12, 12),  # a recipe's own tolerance let it through
        ("fp16", 70, 70, 47),
        ("int8", 30, 31, 27),
        ("int8", 30, 28, 25),
        ("int8", 200, 200, 47),
        ("int8", 11, 11, 10),
        ("int8", 6, 6, 6),
        ("int8-half", 33, 33, 26.99),  # 30 dB of rounding and 30 dB of half arithmetic
        ("q4f16", 11, 11, 10),
    ],
)
def test_selftest_minimum(name: str, gate_snr: float, probe_snr: float, minimum: float) -> None:
    verdict = Verdict("snr", gate_snr, 0, True, "", snr=gate_snr)
    form = FORM[name]
    found = selftest_minimum(form.dtype, form.compute, verdict, probe_snr)
    assert found == pytest.approx(minimum, abs=0.01)
