"""What ships, where it runs, and what an optimizer may not change: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from builder import passes
from builder.model import Array, Reference, Signature
from builder.passes.base import Pass
from builder.passes.check import validate
from builder.precision import FORMS, Demand, Subject, make
from builder.webruntime.support import webgpu_operators
from tests.precision.small import model, normal, operators, references, run

RNG = np.random.default_rng(13)
F = np.float32


def windows(x: Any, taps: int) -> Any:
    """[1, C, L] to [1, C, L - taps + 1, taps]."""
    return np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), taps, axis=2)


def test_int8_convolutions_use_operators_of_every_backend() -> None:
    full = RNG.standard_normal((96, 64, 5)).astype(F)
    factors = np.logspace(-2, 1, 96).reshape(96, 1, 1)
    depthwise = (RNG.standard_normal((96, 1, 320)) * factors).astype(F)
    subject = normal(
        """g (float[1, 64, 400] x) => (float[1, 96, 77] y) {
            a = Conv(x, full)
            y = Conv<group = 96>(a, depthwise)
        }""",
        {"full": full, "depthwise": depthwise},
    )
    x = RNG.standard_normal((1, 64, 400)).astype(F)
    form = next(form for form in FORMS if form.name == "int8")
    made = form.convert(Subject(subject, references(subject, {"x": x})), frozenset())
    assert made is not None
    graph = made.ir
    validate(graph, subject.signature)
    stored = [value.dtype for value in graph.graph.initializers.values()]
    assert stored.count(ir.DataType.UINT8) == 2
    assert set(operators(graph)) <= {operator for _, operator in webgpu_operators()}
    a = np.einsum("oik,bilk->bol", full, windows(x, 5))
    expected = np.einsum("ck,bclk->bcl", depthwise[:, 0], windows(a, 320))
    noise = np.square(run(graph, {"x": x})["y"] - expected).sum(axis=(0, 2))
    ratios = 10 * np.log10(np.square(expected).sum(axis=(0, 2)) / noise)
    assert ratios.min() > 30, "every channel, the smallest too"


@pytest.mark.parametrize("metric", ["snr", "top1"])
def test_an_export_that_is_far_off_is_never_shipped(metric: str) -> None:
    """The graph computes something else than the framework did, though the best label is equal."""
    w = RNG.standard_normal((8, 5)).astype(F)
    subject = normal("g (float[2, 8] x) => (float[2, 5] y) { y = MatMul(x, w) }", {"w": w})
    x = RNG.standard_normal((2, 8)).astype(F)
    (reference,) = references(subject, {"x": x})
    right: Any = reference.outputs["y"].copy()
    right[np.arange(2), right.argmax(-1)] += F(1923)
    framework = Reference("framework", reference.inputs, {"y": right})
    fp32 = next(form for form in FORMS if form.name == "fp32")
    outcome = make(Subject(subject, [framework]), fp32, Demand(metric))
    assert outcome is not None
    assert outcome.ir is None
    assert outcome.verdict is not None
    assert outcome.verdict.max_abs_error == pytest.approx(1923, rel=1e-3)
    assert "dB" in outcome.reason


def stored(graph: ir.Model) -> set[tuple[str, bytes]]:
    """Element type and bytes of weights; vectors (a bias) weigh little, and may differ."""
    tensors = [value.const_value for value in graph.graph.initializers.values()]
    return {(t.dtype.name, t.tobytes()) for t in tensors if t is not None and len(t.shape) > 1}


@pytest.mark.parametrize(("base", "twin"), [("fp16", "fp16"), ("int8", "int8"), ("q4", "q4f16")])
def test_a_device_without_half_computes_in_fp32_on_the_same_bytes(base: str, twin: str) -> None:
    w, b = RNG.standard_normal((256, 256)).astype(F), RNG.standard_normal(256).astype(F)
    source = normal(
        "g (float[4, 256] x) => (float[4, 256] y) { m = MatMul(x, w)  a = Add(m, b)  y = Relu(a) }",
        {"w": w, "b": b},
    )
    x = RNG.standard_normal((4, 256)).astype(F)
    subject = Subject(source, references(source, {"x": x}))
    forms = {f"{f.dtype} {f.compute}": f for f in FORMS if f.devices != ("wasm",)}
    single = forms[f"{base} float32"].convert(subject, frozenset())
    half = forms[f"{twin} float16"].convert(subject, frozenset())
    assert single is not None
    assert half is not None
    assert stored(single.ir) == stored(half.ir)
    assert not {("FLOAT", w.tobytes())} & stored(single.ir)
    for node in single.ir.graph:
        if node.op_type != "Cast":  # weights stored in half are cast before they are used
            assert ir.DataType.FLOAT16 not in [v.dtype for v in node.outputs]
    expected = np.maximum(x.astype(np.float64) @ w + b, 0)
    for graph in (single.ir, half.ir):
        noise = np.square(run(graph, {"x": x})["y"] - expected).sum()
        assert 10 * np.log10(np.square(expected).sum() / noise) > 15


class _Renames(Pass):
    step = "other names"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        model.graph.outputs[0].name = "output_0"
        return ir.passes.PassResult(model, True)


class _Swaps(Pass):
    step = "another order"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        first, second = model.graph.outputs
        model.graph.outputs.clear()
        model.graph.outputs.extend([second, first])
        return ir.passes.PassResult(model, True)


class _Freezes(Pass):
    step = "a fixed batch"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for value in (*model.graph.inputs, *model.graph.outputs):
            value.shape = ir.Shape([1, 4])
        return ir.passes.PassResult(model, True)


class _BakesIn(Pass):
    """Right for the one row of an example, whose declared shape stays."""

    step = "one row"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        next(node for node in model.graph if node.op_type == "Mul").op_type = "Div"
        return ir.passes.PassResult(model, True)


class _Retypes(Pass):
    step = "wider"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        model.graph.inputs[0].type = ir.TensorType(ir.DataType.DOUBLE)
        return ir.passes.PassResult(model, True)


@pytest.mark.parametrize("step", [_Renames, _Swaps, _Freezes, _BakesIn, _Retypes])
def test_an_optimizer_that_changes_the_interface_or_another_shape_is_undone(
    step: type[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "STEPS", (*passes.STEPS, step))
    source = model(
        """g (float[n, 4] x) => (float[n, 4] y, float[n, 4] z) {
            s = Shape<end = 1>(x)
            rows = Cast<to = 1>(s)
            y = Mul(x, rows)
            z = Neg(x)
        }"""
    )
    x = RNG.standard_normal((3, 4)).astype(F)
    subject = passes.normalise(source, probes=[{"x": x[:1]}])
    assert any("undone" in event.message for event in subject.events if event.step == step.step)
    assert Signature.of(subject.ir.graph) == source.signature
    out = run(subject.ir, {"x": x})
    assert list(out) == ["y", "z"]
    np.testing.assert_array_equal(out["y"], x * 3)
    np.testing.assert_array_equal(out["z"], -x)


def test_weight_that_only_a_dead_branch_reads_is_removed() -> None:
    subject = normal(
        """g (float[2, 64] x, bool c) => (float[2, 64] y) {
            y = Neg(x)
            dead = If(c) <
                then_branch = t () => (float[2, 64] a) { a = MatMul(x, w) },
                else_branch = e () => (float[2, 64] b) { b = Abs(x) }
            >
        }""",
        {"w": RNG.standard_normal((64, 64)).astype(F)},
    )
    x = RNG.standard_normal((2, 64)).astype(F)
    feed: dict[str, Array] = {"x": x, "c": np.array(True)}
    np.testing.assert_array_equal(run(subject.ir, feed)["y"], -x)
    assert operators(subject.ir) == ["Neg"]
    assert not subject.ir.graph.initializers


def test_integer_bias_of_a_quantized_source_has_no_zero_point() -> None:
    subject = normal(
        """g (float[1, 3] x) => (float[1, 2] y) {
            b = DequantizeLinear(bias, step, zero)
            y = Gemm(x, w, b)
        }""",
        {
            "bias": np.array([5, -7], np.int32),
            "step": np.array(0.5, F),
            "zero": np.array(0, np.int32),
            "w": np.ones((3, 2), F),
        },
    )
    x = np.array([[1, 2, 3]], F)
    np.testing.assert_array_equal(run(subject.ir, {"x": x})["y"], [[8.5, 2.5]])
    nodes = [node for node in subject.ir.graph if node.op_type == "DequantizeLinear"]
    assert all(len(node.inputs) == 2 or node.inputs[2] is None for node in nodes)
