"""Ranges for static quantization: what numpy computes, and where the entropy is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import entropy as divergence  # type: ignore[import-untyped]

from builder.model import Reference
from builder.precision import Subject, calibration
from builder.precision.calibration import BINS, Histogram, measure
from builder.precision.ranges import Range
from builder.recipe import CalibrationMethod
from tests.precision.small import normal, references

RNG = np.random.default_rng(8)
TWICE = "g (float[n, 64] x) => (float[n, 64] y) { t = Add(x, x)  y = Relu(t) }"


def runs(*arrays: npt.NDArray[Any]) -> list[Reference]:
    return [Reference(str(i), {"x": a.astype(np.float32)}, {}) for i, a in enumerate(arrays)]


def test_minmax_is_exact_over_all_runs() -> None:
    arrays = [RNG.normal(0.3 * i, 1 + i, (5 + i, 64)).astype(np.float32) for i in range(6)]
    found = measure(normal(TWICE).ir, ["x", "t", "y"], runs(*arrays), "minmax")
    x = np.concatenate(arrays)
    wanted = {"x": x, "t": x + x, "y": np.maximum(x + x, 0)}
    assert {n: (r.low, r.high) for n, r in found.items()} == {
        n: (float(a.min()), float(a.max())) for n, a in wanted.items()
    }


@pytest.mark.parametrize("kept", [90.0, 99.0, 99.9])
def test_percentile_is_numpys_to_a_bin(monkeypatch: pytest.MonkeyPatch, kept: float) -> None:
    monkeypatch.setattr(calibration, "PERCENTILE", kept)
    arrays = [RNG.exponential(2, (200, 64)) - 1 for _ in range(4)]
    found = measure(normal(TWICE).ir, ["x"], runs(*arrays), "percentile")["x"]
    x = np.concatenate(arrays).astype(np.float32)
    wanted, rank, width = (100 + kept) / 2, 100 / x.size, 2 * np.abs(x).max() / BINS
    for got, at in ((found.low, 100 - wanted), (found.high, wanted)):
        # Up to one rank: in the tail, elements are further apart than bins are wide.
        least, most = np.percentile(x, [max(at - rank, 0), min(at + rank, 100)])
        assert least - width <= got <= most + width
    assert found.high < 0.8 * x.max()


def divergences(counts: npt.NDArray[np.int64]) -> dict[int, float]:
    """By half width of the threshold in bins: the talk's algorithm, written out bin by bin."""
    found, middle = {}, BINS // 2
    for half in range(64, middle + 1, 16):
        inside = counts[middle - half : middle + half + 1]
        p = inside.astype(float)
        p[0] += counts[: middle - half].sum()
        p[-1] += counts[middle + half + 1 :].sum()
        q, width = np.zeros(len(p)), len(p) // 128
        for level in range(128):
            end = (level + 1) * width if level < 127 else len(p)
            bins = range(level * width, end)
            filled = [b for b in bins if p[b] > 0]
            for b in filled:
                q[b] = sum(inside[i] for i in bins) / len(filled)
        for one in (p, q):
            empty = one == 0
            one[~empty] = np.maximum(one[~empty] - 1e-4 * empty.sum() / (~empty).sum(), 1e-4)
            one[empty] = 1e-4
        found[half] = float(divergence(p, q))
    return found


def test_entropy_cuts_a_few_outliers_where_the_divergence_is_least() -> None:
    # A bell within about a sixth of the range, and four elements far out.
    x = np.concatenate([RNG.normal(0, 1, 400_000), [30.0, -30.0, 29.0, -28.0]])
    histogram = Histogram(Range(-30.0, 30.0), np.zeros(BINS, np.int64))
    histogram.add(x)
    found = calibration.entropy(histogram)
    assert found.low == pytest.approx(-found.high)
    assert 2.5 < found.high < 8
    step = 60 / BINS
    reached = calibration._divergence(
        histogram.counts,
        BINS // 2 - round(found.high / step - 0.5),
        BINS // 2 + round(found.high / step - 0.5) + 1,
    )
    naive = divergences(histogram.counts)
    assert reached <= min(naive.values()) + 1e-9
    middle = BINS // 2
    for half in list(naive)[::10]:
        ours = calibration._divergence(histogram.counts, middle - half, middle + half + 1)
        assert ours == pytest.approx(naive[half], rel=1e-6)


def test_entropy_keeps_what_is_evenly_spread() -> None:
    x = np.linspace(0, 4, 500_000)
    histogram = Histogram(Range(0.0, 4.0), np.zeros(BINS, np.int64))
    histogram.add(x)
    found = calibration.entropy(histogram)
    assert found.low == 0.0, "not beyond what was seen"
    assert found.high > 3.8


def test_what_is_not_finite_or_empty_has_no_range() -> None:
    text = (
        "g (float[n, 64] x) => (float[n, 64] y, float[0, 64] e) { y = Log(x)  e = Slice(x, s, s) }"
    )
    model = normal(text, {"s": np.array([0])})
    for method in ("minmax", "entropy", "percentile"):
        found = measure(model.ir, ["x", "y", "e"], runs(np.zeros((2, 64))), method)
        assert set(found) == {"x"}
        assert (found["x"].low, found["x"].high) == (0, 0)


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_a_subject_measures_what_q8_rounds(method: CalibrationMethod) -> None:
    w = RNG.normal(0, 1, (64, 8)).astype(np.float32)
    text = "g (float[n, 64] x) => (float[n, 8] y) { t = Neg(x)  y = MatMul(t, w) }"
    subject = normal(text, {"w": w})
    x = RNG.normal(0, 1, (32, 64)).astype(np.float32)
    made = Subject(subject, references(subject, {"x": x}), method=method)
    assert set(made.extents) == {"t"}
    assert made.extents["t"].high <= -x.min()
