"""Metrics against figures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from builder.model import Array
from builder.precision.metrics import METRICS, max_abs_error, snr, top1

F = np.float32


def one(array: object, dtype: type = np.float32) -> list[dict[str, Array]]:
    return [{"y": np.array(array, dtype)}]


def test_snr_is_that_of_the_worst_output_of_the_worst_run() -> None:
    reference = [{"a": np.ones(4, F), "b": np.ones(4, F)}] * 2
    good, bad = np.full(4, 1.001, np.float64), np.full(4, 1.1, np.float64)
    variants = [{"a": good, "b": good}, {"a": good, "b": bad}]
    assert snr(reference, variants) == pytest.approx(20.0, abs=1e-6)  # 10 % of error


def test_snr_of_a_missing_output_is_wrong() -> None:
    assert snr(one([1.0]), [{}]) == -200


def test_top1_counts_rows() -> None:
    reference = one([[0, 1, 2], [5, 4, 3], [0, 9, 0], [1, 2, 3]])
    variant = one([[0, 1, 2], [4, 5, 3], [0, 9, 0], [1, 2, 3]])
    assert top1(reference, variant) == 0.75


def test_top1_takes_the_first_output_of_floats() -> None:
    reference: list[dict[str, Array]] = [{"n": np.array([3]), "y": np.array([1, 2], F)}]
    variant: list[dict[str, Array]] = [{"n": np.array([3]), "y": np.array([1, 3], F)}]
    assert top1(reference, variant) == 1.0


def test_top1_of_nan_agrees_nowhere() -> None:
    assert top1(one([[0, 1]]), one([[np.nan, 1]])) == 0


def test_top1_without_floats_agrees_nowhere() -> None:
    assert top1(one([1, 2], np.int64), one([1, 2], np.int64)) == 0


def test_max_abs_error() -> None:
    assert max_abs_error(one([1, 2, np.inf]), one([1, -1, np.inf])) == 3


DTYPES = {"fp32", "fp16", "int8", "q4", "q4f16", "q8", "uint8"}


def test_every_metric_has_limits_for_every_dtype() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert set(metric.tolerance) == set(metric.snr_floor) == DTYPES


def test_figures_for_people() -> None:
    assert METRICS["snr"].show(41.26) == "41.3 dB"
    assert METRICS["top1"].show(0.965) == "96.5 %"
    assert METRICS["cosine"].show(0.99951) == "0.9995"


def test_cosine_is_that_of_the_worst_run() -> None:
    reference = [*one([[1, 0], [3, 0]]), *one([[0, 2], [0, 4]])]
    # The mean over tokens counts, not each of them.
    assert METRICS["cosine"].measure(reference, [*one([[2, 1], [2, -1]]), *one([[0, 9]])]) == 1
    worst = METRICS["cosine"].measure(reference, [*one([[1, 0]]), *one([[1, 1]])])
    assert worst == pytest.approx(np.sqrt(0.5))


def test_neighbours_of_embeddings() -> None:
    points = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]
    reference = [run for point in points for run in one([point])]
    moved = [run for point in [[1, 0], [0.9, 0.1], [0, 1], [0.8, 0.2]] for run in one([point])]
    assert METRICS["neighbours"].measure(reference, reference) == 1
    # The last point has moved to the first two, and left the third one alone.
    assert METRICS["neighbours"].measure(reference, moved) < 1


def test_overlap_of_boxes() -> None:
    def boxes(*rows: list[float]) -> list[dict[str, Array]]:
        return [{"boxes": np.array(rows, F).reshape(-1, 4)}]

    measure = METRICS["boxes"].measure
    unit = boxes([0, 0, 2, 2])
    assert measure(unit, boxes([0, 0, 2, 1])) == 0.5
    assert measure(unit, boxes()) == 0
    assert measure(boxes(), boxes()) == 1
    assert measure(unit, boxes([5, 5, 6, 6], [0, 0, 2, 2])) == 0.5  # one too many


def test_texts_drop_repetitions() -> None:
    def steps(text: str) -> list[dict[str, Array]]:
        return [{"y": np.eye(26, dtype=F)[[ord(letter) - 97 for letter in text]][None]}]

    assert METRICS["text"].measure(steps("aabbbc"), steps("abbccc")) == 1
    assert METRICS["text"].measure(steps("aabbbc"), steps("abbcdd")) == 0
    assert METRICS["tokens"].measure(steps("abcd"), steps("abbd")) == 0.75


def test_greedy_looks_at_the_last_sixteen_choices() -> None:
    def steps(text: str) -> list[dict[str, Array]]:
        return [{"y": np.eye(26, dtype=F)[[ord(letter) - 97 for letter in text]][None]}]

    measure, text = METRICS["greedy"].measure, "abcdefghijklmnopqrst"
    assert measure(steps(text), steps("zzzz" + text[4:])) == 1  # the prompt's own tokens
    assert measure(steps(text), steps(text[:4] + "z" + text[5:])) == 0
    assert measure(steps(text) * 2, steps(text) + steps(text[:-1] + "z")) == 0.5
