"""Pruning: which weights become 0, what the others take over, and what the gate makes of it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from builder.model import Array, Model, Reference
from builder.precision import FORMS, Demand, Ladder, Lighter, Subject, lighter_events, make
from builder.precision.prune import pruned
from tests.precision.small import normal, references, run, weight

FORM = {form.name: form for form in FORMS}
SIDE = 128


def test_the_smallest_become_zero_and_the_others_stay() -> None:
    matrix = np.array([[1, -4, 0.5], [3, -0.25, 2]], np.float32)
    expected = np.array([[0, -4, 0], [3, 0, 2]], np.float32)
    np.testing.assert_array_equal(pruned(matrix, 0.5, None), expected)


def test_of_equal_ones_the_first_go_and_never_more_than_the_share() -> None:
    matrix = np.ones((5, 1), np.float32)
    np.testing.assert_array_equal(pruned(matrix, 0.5, None)[:, 0], [0, 0, 1, 1, 1])


def test_what_goes_is_given_back_by_what_stays() -> None:
    # y = x0 w0 + x1 w1 without w0 is nearest to what it was for w1 + w0 <x0, x1> / <x1, x1>; a
    # hundredth of the mean of the diagonal is added to it, as in the paper of GPTQ.
    gram = np.array([[6, 4], [4, 10]], np.float32)
    found = pruned(np.array([[0.5], [2]], np.float32), 0.5, gram)
    assert found[0, 0] == 0
    assert found[1, 0] == pytest.approx(2 + 0.5 * 4 / 10.08, rel=1e-6)


def test_with_compensation_the_result_is_nearer() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 16)) @ rng.standard_normal((16, 64))
    x += 0.1 * rng.standard_normal(x.shape)
    gram = (x.T @ x).astype(np.float32)
    matrix = rng.standard_normal((64, 32)).astype(np.float32)
    plain, compensated = pruned(matrix, 0.5, None), pruned(matrix, 0.5, gram)
    assert int((compensated == 0).sum()) == 64 * 32 // 2
    np.testing.assert_array_equal(compensated == 0, plain == 0)
    lost = [np.linalg.norm(x @ (matrix - other)) for other in (plain, compensated)]
    assert lost[1] < 0.85 * lost[0]


def products(*matrices: Array) -> Subject:
    """Products one after the other, with rows that are noise."""
    weights = {f"w{i}": matrix.astype(np.float32) for i, matrix in enumerate(matrices)}
    names = ["x", *(f"h{i}" for i in range(len(matrices) - 1)), "y"]
    steps = " ".join(f"{names[i + 1]} = MatMul({names[i]}, w{i})" for i in range(len(matrices)))
    model = normal(f"g (float[n, {SIDE}] x) => (float[n, {SIDE}] y) {{ {steps} }}", weights)
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.standard_normal((64, SIDE)).astype(np.float32)} for _ in range(4)]
    return Subject(model, references(model, *feeds))


def heavy_tailed(seed: int) -> Array:
    """Half of the weights are a thousandth of the others."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((SIDE, SIDE)) / SIDE**0.5
    return np.asarray(np.where(rng.random(matrix.shape) < 0.5, matrix / 1000, matrix))


def climb(subject: Subject, name: str, demand: Demand, **asked: float) -> Lighter:
    plain = make(subject, FORM[name], demand)
    assert plain is not None
    assert plain.ir is not None, plain.reason
    return Ladder(subject, asked).climb(FORM[name], demand, plain)


@pytest.mark.parametrize("name", ["fp16", "fp16-half", "int8", "q4"])
def test_zeros_stay_zeros_in_every_form(name: str) -> None:
    rng = np.random.default_rng(4)
    matrices = [rng.standard_normal((SIDE, SIDE)) / SIDE**0.5 for _ in range(2)]
    demand = Demand("snr", tolerance=3, held_to="fp16", wire=True)
    lighter = climb(products(*matrices), "fp32", demand, prune=0.5)
    made = FORM[name].convert(lighter.subject, frozenset())
    assert made is not None
    # What the unit matrix gives are the weights as the form has them.
    unit = {"x": np.eye(SIDE, dtype=np.float32)}
    dense = run(exposed(made.ir, "h0"), unit)["h0"].reshape(-1)
    order = np.argsort(np.abs(matrices[0].astype(np.float32)), axis=None, kind="stable")
    half = SIDE * SIDE // 2
    assert not dense[order[:half]].any()
    assert (dense[order[half:]] != 0).mean() > 0.9


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
def test_a_type_is_made_from_what_the_gate_holds_with(name: str) -> None:
    demand = Demand("snr", tolerance=15, held_to="int8", wire=True)
    found = climb(products(heavy_tailed(0), heavy_tailed(1)), name, demand, prune=0.5)
    (passed,) = found.passed
    assert passed.kept, passed.reason
    assert passed.layers == (2, 2)
    assert passed.after[1] < 0.8 * passed.before[1]
    assert found.outcome.ir is not None
    assert (found.outcome.size, found.outcome.wire) == passed.after
    assert found.outcome.size == len(ir.to_proto(found.outcome.ir).SerializeToString())


def exposed(graph: ir.Model, name: str) -> ir.Model:
    """A copy that gives a value in between as well."""
    copy = graph.clone()
    value = next(v for node in copy.graph for v in node.outputs if v.name == name)
    copy.graph.outputs.append(value)
    return copy


def test_the_layer_that_suffers_most_stays_as_it_was() -> None:
    # All weights of a Hadamard matrix are as large: half of them gone is half of the result gone.
    hadamard = np.ones((1, 1))
    while len(hadamard) < SIDE:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    matrices = [heavy_tailed(seed) for seed in range(5)]
    matrices.insert(2, hadamard / SIDE**0.5)
    subject = products(*matrices)
    demand = Demand("snr", tolerance=30, held_to="fp16", wire=True)
    found = climb(subject, "fp32", demand, prune=0.5)
    (passed,) = found.passed
    assert passed.kept, passed.reason
    assert passed.layers == (5, 6)
    assert [step.verdict.passed for step in passed.steps] == [False, True]
    graph = found.outcome.ir
    assert graph is not None
    shares = [float(np.mean(weight(graph, f"w{i}") == 0)) for i in range(6)]
    assert shares == [0.5, 0.5, 0.0, 0.5, 0.5, 0.5]
    np.testing.assert_array_equal(weight(graph, "w2"), weight(subject.ir, "w2"))
    assert found.outcome.verdict is not None
    assert found.outcome.verdict.snr >= 30
    said = [event.message for event in lighter_events(FORM["fp32"], passed)]
    assert said[0].endswith("fail")
    assert said[-1].startswith("fp32: 5 of 6 layers 50% 0: ")
    assert "on the wire instead of" in said[-1]


def test_an_absurd_share_is_dropped_and_nothing_changes() -> None:
    rng = np.random.default_rng(2)
    subject = products(*(rng.standard_normal((SIDE, SIDE)) / SIDE**0.5 for _ in range(3)))
    demand = Demand("snr", wire=True)
    plain = make(subject, FORM["int8"], demand)
    assert plain is not None
    found = Ladder(subject, {"prune": 0.99}).climb(FORM["int8"], demand, plain)
    assert found.outcome is plain
    assert found.subject is subject
    (passed,) = found.passed
    assert not passed.kept
    assert passed.layers == (0, 3)
    assert len(passed.steps) == 3
    assert not any(step.verdict.passed for step in passed.steps)
    last = lighter_events(FORM["int8"], passed)[-1]
    assert last.level == "warning"
    assert last.message.startswith("int8: dropped. Signal-to-noise ratio against fp32 ")
    assert last.message.endswith("asked for 15.0 dB")


def test_what_saves_nothing_is_dropped() -> None:
    # A hundredth of the weights: less than three percent on the wire.
    subject = products(heavy_tailed(3))
    found = climb(subject, "int8", Demand("snr", tolerance=8, wire=True), prune=0.01)
    (passed,) = found.passed
    assert not passed.kept
    assert passed.reason.startswith("It saves nothing: ")


def test_a_model_without_large_layers_says_so() -> None:
    model: Model = normal("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    runs: list[Reference] = references(model, {"x": np.ones(2, np.float32)})
    demand = Demand("snr", held_to="fp16", wire=True)
    found = climb(Subject(model, runs), "fp32", demand, prune=0.5)
    assert [passed.reason for passed in found.passed] == ["No layer has 10000 weights"]
