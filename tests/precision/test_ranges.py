"""Ranges against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from builder.precision import ranges
from builder.precision.ranges import Range, measure, spread
from tests.precision.small import normal, references

X = np.array([[3, -4, 1, 2], [0, 1, -1, 0]], np.float32)


def test_lowest_and_highest_of_every_value_over_all_references() -> None:
    model = normal("g (float[2, 4] x) => (float[2, 4] y) { a = Neg(x)  y = Mul(a, a) }")
    found = measure(model.ir, references(model, {"x": X}, {"x": 10 * X})).values
    assert (found["x"].low, found["x"].high) == (-40, 30)
    assert (found["a"].low, found["a"].high) == (-30, 40)
    assert found["y"].peak == 1600


def test_nan_counts_as_infinite() -> None:
    found = Range()
    found.include(np.array([1, np.nan]))
    assert found.peak == np.inf


@pytest.mark.parametrize(
    ("node", "shape", "expected"),
    [
        ("ReduceSumSquare<keepdims = 0>(x, ax)", "2", 30),
        ("ReduceL2<keepdims = 0>(x, ax)", "2", 30),
        ("ReduceSum<keepdims = 0>(x, ax)", "2", 10),
        ("ReduceMean<keepdims = 0>(x, ax)", "2", 10),
        ("Softmax<axis = -1>(x)", "2, 4", 4),
        ("LayerNormalization(x, w)", "2, 4", 30),
        ("MatMul(x, m)", "2, 1", 2 * 2 * 4),  # |m| = 2, sqrt(4) = 2, max |x| = 4
    ],
)
def test_sums_inside(node: str, shape: str, expected: float) -> None:
    model = normal(
        f"g (float[2, 4] x) => (float[{shape}] y) {{ y = {node} }}",
        {
            "ax": np.array([1]),
            "w": np.ones(4, np.float32),
            "m": np.array([[1], [-1], [1], [-1]], np.float32),
        },
    )
    inner = measure(model.ir, references(model, {"x": X})).inner
    assert list(inner.values()) == [pytest.approx(expected)]


def test_pool_over_a_large_map() -> None:
    model = normal(
        "g (float[1, 1, 200, 200] x) => (float[1, 1, 1, 1] y) { y = GlobalAveragePool(x) }"
    )
    x = np.full((1, 1, 200, 200), 6, np.float32)
    assert list(measure(model.ir, references(model, {"x": x})).inner.values()) == [240_000]


def test_batches_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = normal(
        "g (float[2, 4] x) => (float[2, 4] y) { a = Neg(x)  b = Exp(a)  c = Abs(b)  y = Sqrt(c) }"
    )
    runs = references(model, {"x": X})
    whole = measure(model.ir, runs)
    monkeypatch.setattr(ranges, "BATCH_BYTES", 1)
    assert measure(model.ir, runs) == whole


def test_spread_takes_few_and_the_first() -> None:
    model = normal("g (float[2, 4] x) => (float[2, 4] y) { y = Neg(x) }")
    runs = references(model, *[{"x": X}] * 100)
    chosen = spread(runs)
    assert len(chosen) <= ranges.REFERENCES
    assert chosen[0].name == "0"
    assert len({reference.name for reference in chosen}) == len(chosen)
