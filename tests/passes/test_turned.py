"""Weights and their transposes: stored once, right values, and what must stay."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

from builder import passes
from builder.model import Array, Model, Provenance, Signature
from builder.passes.check import validate
from builder.precision import FORMS, Demand, Subject, make
from tests.precision.small import model, normal, operators, references, run

RNG = np.random.default_rng(5)
F = np.float32
W = RNG.standard_normal((40, 16)).astype(F)
TIED = """g (int64[n] i) => (float[n, 40] y) {
    e = Gather(table, i)
    y = MatMul(e, head)
}"""


def stored(subject: Model) -> dict[str, tuple[int, ...]]:
    """Weights of more than one element."""
    values = subject.ir.graph.initializers.values()
    shapes = {v.name or "": tuple(v.const_value.shape.numpy()) for v in values if v.const_value}
    return {name: shape for name, shape in shapes.items() if np.prod(shape) > 1}


def saved(subject: Model) -> bool:
    return any("there transposed" in event.message for event in subject.events)


@pytest.mark.parametrize("order", [("table", "head"), ("head", "table")])
def test_the_table_that_is_looked_up_is_the_one_that_stays(order: tuple[str, str]) -> None:
    arrays: dict[str, Array] = {"table": W, "head": np.ascontiguousarray(W.T)}
    subject = normal(TIED, {name: arrays[name] for name in order})
    assert stored(subject) == {"table": (40, 16)}
    assert operators(subject.ir) == ["Transpose", "Gather", "MatMul"]
    assert any("1 weights were there transposed: 2560 bytes" in e.message for e in subject.events)
    i = np.array([0, 7, 39])
    np.testing.assert_allclose(run(subject.ir, {"i": i})["y"], W[i] @ W.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_gemm_reads_the_twin_by_its_flags(left: int, right: int) -> None:
    x = RNG.standard_normal((16, 5) if left else (5, 16)).astype(F)
    turned = np.ascontiguousarray(W.T)
    table, head = (turned, W) if right else (W, turned)
    subject = normal(
        f"""g (int64[2] i, float[{x.shape[0]}, {x.shape[1]}] x)
            => (float[2, {table.shape[1]}] e, float[5, 40] y) {{
            e = Gather(table, i)
            y = Gemm<transA = {left}, transB = {right}>(x, head)
        }}""",
        {"table": table, "head": head},
    )
    assert stored(subject) == {"table": table.shape}
    assert operators(subject.ir) == ["Gather", "Gemm"]
    out = run(subject.ir, {"i": np.array([1, 2]), "x": x})["y"]
    np.testing.assert_allclose(out, (x.T if left else x) @ W.T, rtol=1e-5, atol=1e-5)


def test_gemm_turns_its_first_input_too() -> None:
    x = RNG.standard_normal((40, 3)).astype(F)
    subject = normal(
        """g (int64[2] i, float[40, 3] x) => (float[2, 16] e, float[16, 3] y) {
            e = Gather(w, i)
            y = Gemm(v, x)
        }""",
        {"w": W, "v": np.ascontiguousarray(W.T)},
    )
    assert stored(subject) == {"w": (40, 16)}
    assert operators(subject.ir) == ["Gather", "Gemm"]
    out = run(subject.ir, {"i": np.array([1, 2]), "x": x})["y"]
    np.testing.assert_allclose(out, W.T @ x, rtol=1e-5, atol=1e-5)


def test_of_two_products_the_later_weight_goes() -> None:
    subject = normal(
        "g (float[3, 40] x) => (float[3, 40] y) { a = MatMul(x, w)  y = MatMul(a, v) }",
        {"w": W, "v": np.ascontiguousarray(W.T)},
    )
    assert stored(subject) == {"w": (40, 16)}
    x = RNG.standard_normal((3, 40)).astype(F)
    np.testing.assert_allclose(run(subject.ir, {"x": x})["y"], x @ W @ W.T, rtol=1e-4, atol=1e-4)


def test_a_stack_is_turned_in_its_last_two_axes() -> None:
    w = RNG.standard_normal((3, 24, 16)).astype(F)
    subject = normal(
        "g (float[3, 5, 24] x) => (float[3, 5, 24] y) { a = MatMul(x, w)  y = MatMul(a, v) }",
        {"w": w, "v": np.ascontiguousarray(w.swapaxes(1, 2))},
    )
    assert stored(subject) == {"w": (3, 24, 16)}
    x = RNG.standard_normal((3, 5, 24)).astype(F)
    expected = x @ w @ w.swapaxes(1, 2)
    np.testing.assert_allclose(run(subject.ir, {"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def _swapped() -> Array:
    """The transpose but for two elements that changed places: the same sum of bits."""
    array = np.ascontiguousarray(W.T)
    array[0, 0], array[1, 1] = array[1, 1], array[0, 0]
    return array


def _negative_zero() -> tuple[Array, Array]:
    first, second = W.copy(), np.ascontiguousarray(W.T)
    first[3, 4], second[4, 3] = 0.0, -0.0
    return first, second


@pytest.mark.parametrize(
    ("table", "head"),
    [(W, _swapped()), _negative_zero(), (W[:8, :16], np.ascontiguousarray(W[:8, :16].T))],
    ids=["same sum of bits", "signs of zero", "small"],
)
def test_what_is_no_transpose_or_too_small_stays(table: Array, head: Array) -> None:
    text = TIED.replace("40", str(head.shape[1]))
    subject = normal(text, {"table": table, "head": head})
    assert set(stored(subject)) == {"table", "head"}
    assert not saved(subject)


def test_weights_that_others_read_or_that_are_outputs_stay() -> None:
    subject = normal(
        """g (int64[2] i, float[16, 40] x) => (float[2, 16] a, float[16, 40] b) {
            a = Gather(w, i)
            b = Add(x, v)
        }""",
        {"w": W, "v": np.ascontiguousarray(W.T)},
    )
    assert set(stored(subject)) == {"w", "v"}


def test_symmetric_weights_are_no_twins_of_their_own() -> None:
    symmetric = W @ W.T
    subject = normal(
        "g (float[3, 40] x) => (float[3, 40] y) { y = MatMul(x, w) }", {"w": symmetric}
    )
    assert operators(subject.ir) == ["MatMul"]


def test_a_reader_inside_a_branch() -> None:
    subject = normal(
        """g (bool c, int64[2] i) => (float[2, 40] y) {
            e = Gather(table, i)
            y = If (c) <
                then_branch = yes () => (float[2, 40] p) { p = MatMul(e, head) },
                else_branch = no () => (float[2, 40] q) {
                    m = MatMul(e, head)
                    q = Neg(m)
                }
            >
        }""",
        {"table": W, "head": np.ascontiguousarray(W.T)},
    )
    assert stored(subject) == {"table": (40, 16)}
    i = np.array([3, 4])
    for c, sign in ((True, 1), (False, -1)):
        out = run(subject.ir, {"c": np.array(c), "i": i})["y"]
        np.testing.assert_allclose(out, sign * (W[i] @ W.T), rtol=1e-5, atol=1e-5)


def test_normal_form_of_normal_form_is_the_same() -> None:
    subject = normal(TIED, {"table": W, "head": np.ascontiguousarray(W.T)})
    again = passes.normalise(subject)
    first, second = (
        ir.to_proto(m.ir).SerializeToString(deterministic=True) for m in (subject, again)
    )
    assert first == second


BYTES = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "q4": 0.57}


@pytest.mark.parametrize("name", list(BYTES))
def test_every_conversion_stores_the_twins_once(name: str) -> None:
    """Levels, scales and zero points of [V, D] alone: at most a tenth above its bytes."""
    table = RNG.standard_normal((1200, 96)).astype(F)
    text = TIED.replace("40", "1200")
    subject = normal(text, {"table": table, "head": np.ascontiguousarray(table.T)})
    form = next(form for form in FORMS if form.name == name)
    i = np.arange(0, 1200, 40)
    measured = Subject(subject, references(subject, {"i": i}))
    outcome = make(measured, form, Demand("snr"))
    assert outcome is not None
    assert outcome.ir is not None, outcome.reason
    validate(outcome.ir, subject.signature)
    assert outcome.size < 1.1 * BYTES[name] * table.size + 8000
    got, expected = run(outcome.ir, {"i": i})["y"], table[i].astype(np.float64) @ table.T
    assert np.sqrt(np.mean((got - expected) ** 2) / np.mean(expected**2)) < 0.2


def test_tied_weights_that_pytorch_traces(tmp_path: Path) -> None:
    """The tracing exporter really writes both, and what stays gives what PyTorch gives."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(300, 24)
            self.head = torch.nn.Linear(24, 300, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(torch.tanh(self.embedding(ids)))
            return logits

    torch.manual_seed(0)
    module, ids = Tied().eval(), torch.tensor([[3, 299, 0, 7]])
    path = tmp_path / "tied.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter's age is the point
        torch.onnx.export(module, (ids,), path, dynamo=False, input_names=["i"], output_names=["y"])
    graph = ir.load(path)
    written = Model(graph, Signature.of(graph.graph), Provenance("tied.onnx"))
    shapes = [(300, 24), (24, 300)]
    assert sorted(stored(written).values()) == sorted(shapes)
    subject = passes.normalise(written)
    assert list(stored(subject).values()) == [(300, 24)]
    expected = module(ids).detach().numpy()
    got = run(subject.ir, {"i": ids.numpy()})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_the_given_weights_are_unchanged() -> None:
    subject = model(TIED, {"table": W, "head": np.ascontiguousarray(W.T)})
    before = ir.to_proto(subject.ir).SerializeToString(deterministic=True)
    passes.normalise(subject)
    assert ir.to_proto(subject.ir).SerializeToString(deterministic=True) == before
