"""The gate: what ships, what is dropped, and the sentences that say so."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from builder import passes
from builder.model import Model, Provenance, Reference, Signature, Verdict
from builder.precision import METRICS, judge, make, selftest_minimum
from builder.recipe import VariantName
from builder.session import Session
from tests.conftest import convnet
from tests.precision.small import model, normal, references

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def net() -> tuple[Model, list[Reference]]:
    graph = ir.from_proto(convnet())
    subject = passes.normalise(Model(graph, Signature.of(graph.graph), Provenance("net")))
    session = Session(subject.ir)
    feeds = [{"x": RNG.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(8)]
    return subject, [Reference(str(i), feed, session.run(feed)) for i, feed in enumerate(feeds)]


def test_every_variant_of_a_healthy_net_ships(net: tuple[Model, list[Reference]]) -> None:
    subject, runs = net
    sizes = {}
    variants: dict[VariantName, str] = {"fp32": "float32", "fp16": "float16", "int8": "float32"}
    for dtype, compute in variants.items():
        outcome = make(subject, dtype, runs, metric="top1")
        assert outcome.ir is not None, outcome.reason
        assert outcome.compute == compute
        assert outcome.verdict is not None
        assert outcome.verdict.passed
        assert Signature.of(outcome.ir.graph) == subject.signature
        sizes[dtype] = len(ir.to_proto(outcome.ir).SerializeToString())
    assert sizes["fp16"] < 0.55 * sizes["fp32"]
    assert sizes["int8"] < 0.55 * sizes["fp32"]


def test_a_tolerance_that_is_not_met_drops_the_variant(
    net: tuple[Model, list[Reference]],
) -> None:
    outcome = make(net[0], "int8", net[1], metric="snr", tolerance=150)
    assert outcome.ir is None
    assert outcome.verdict is not None
    assert not outcome.verdict.passed
    assert outcome.reason.endswith("asked for 150.0 dB")


def test_what_saves_nothing_is_dropped() -> None:
    subject = normal("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    for dtype in ("fp16", "int8"):
        outcome = make(
            subject,
            dtype,
            references(subject, {"x": np.ones(2, np.float32)}),
            metric="snr",
        )
        assert outcome.ir is None
        assert "saves nothing" in outcome.reason


def test_what_cannot_be_converted_is_dropped_with_its_reason() -> None:
    subject = model("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=12)
    runs = references(subject, {"x": np.ones(2, np.float32)})
    outcome = make(subject, "int8", runs, metric="snr")
    assert outcome.ir is None
    assert outcome.verdict is None
    assert "opset 12" in outcome.reason


def test_an_invalid_graph_is_never_shipped() -> None:
    subject = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    runs = references(subject, {"x": np.ones(2, np.float32)})
    proto = ir.to_proto(subject.ir)
    proto.graph.node[0].op_type = "NoSuchOperator"
    broken = Model(ir.from_proto(proto), subject.signature, subject.provenance)
    outcome = make(broken, "fp32", runs, metric="snr")
    assert outcome.ir is None
    assert "NoSuchOperator" in outcome.reason


def test_sentences() -> None:
    reference = [{"y": np.array([[0, 1]] * 3 + [[1, 0]], np.float32)}]
    variant = [{"y": np.array([[0, 1]] * 4, np.float32)}]
    verdict = judge("int8", reference, variant, METRICS["top1"])
    assert verdict.reason == "Top-1 agreement with fp32 75.0 %, asked for 95.0 %"
    assert verdict.max_abs_error == 1
    assert not verdict.passed


def test_agreement_alone_is_not_enough() -> None:
    reference = [{"y": np.array([[0, 1]], np.float32)}]
    verdict = judge("fp16", reference, [{"y": np.array([[0, 5]], np.float32)}], METRICS["top1"])
    assert verdict.value == 1
    assert not verdict.passed
    assert verdict.reason.endswith("but outputs agree to -12.0 dB only, asked for 35 dB")


@pytest.mark.parametrize(
    ("dtype", "gate_snr", "probe_snr", "minimum"),
    [
        ("fp32", 200, 200, 50),
        ("fp16", 70, 70, 45),
        ("fp16", 45, 45, 30),
        ("fp16", 30, 30, 20),
        ("fp16", 12, 12, 12),  # a recipe's own tolerance let it through
        ("int8", 30, 31, 27),
        ("int8", 30, 28, 25),
        ("int8", 200, 200, 47),
        ("int8", 11, 11, 10),
        ("int8", 6, 6, 6),
    ],
)
def test_selftest_minimum(
    dtype: VariantName, gate_snr: float, probe_snr: float, minimum: float
) -> None:
    verdict = Verdict("snr", gate_snr, 0, True, "", snr=gate_snr)
    assert selftest_minimum(dtype, verdict, probe_snr) == minimum


def test_onnx_checker_accepts_what_ships(net: tuple[Model, list[Reference]]) -> None:
    for dtype in ("fp16", "int8"):
        outcome = make(net[0], dtype, net[1], metric="snr")
        assert outcome.ir is not None
        onnx.checker.check_model(ir.to_proto(outcome.ir), full_check=True)
