"""Signal-to-noise ratio against figures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from builder.snr import SNR_CAP, snr_of

F = np.float32


def test_ten_per_cent_is_twenty_decibels() -> None:
    assert snr_of(np.array([1.0, -1.0]), np.array([1.1, -1.1])) == pytest.approx(20)


def test_equal_arrays_get_the_cap() -> None:
    assert snr_of(np.ones(3, F), np.ones(3, F)) == SNR_CAP


@pytest.mark.parametrize("variant", [[1.0, np.nan], [1.0, np.inf], [np.nan, np.nan]])
def test_non_finite_where_the_reference_is_finite_is_wrong(variant: list[float]) -> None:
    assert snr_of(np.array([1, 2], F), np.array(variant, F)) == -SNR_CAP


def test_non_finite_at_the_same_places_does_not_count() -> None:
    reference = np.array([np.nan, np.inf, -np.inf, 1])
    assert snr_of(reference, reference.copy()) == SNR_CAP
    assert snr_of(reference, np.array([np.nan, np.inf, -np.inf, 1.1])) == pytest.approx(20)
    assert snr_of(reference, np.array([np.nan, -np.inf, -np.inf, 1])) == -SNR_CAP


def test_zero_reference_is_judged_by_absolute_error() -> None:
    assert snr_of(np.zeros(4), np.zeros(4)) == SNR_CAP
    assert snr_of(np.zeros(4), np.full(4, 1e-3)) == pytest.approx(60)


def test_integers_and_booleans_must_be_equal() -> None:
    assert snr_of(np.array([1, 2]), np.array([1, 2])) == SNR_CAP
    assert snr_of(np.array([1, 2]), np.array([1, 3])) == -SNR_CAP
    assert snr_of(np.array([True]), np.array([False])) == -SNR_CAP


def test_another_shape_is_wrong() -> None:
    assert snr_of(np.zeros((2, 1)), np.zeros((1, 2))) == -SNR_CAP


def test_empty_arrays_are_equal() -> None:
    assert snr_of(np.zeros((0, 3), F), np.zeros((0, 3), F)) == SNR_CAP


def test_half_against_single() -> None:
    reference = np.array([0.1], F)
    exact = float(np.float16(0.1)) - float(F(0.1))
    expected = 20 * np.log10(float(F(0.1)) / abs(exact))
    assert snr_of(reference, reference.astype(np.float16)) == pytest.approx(expected)
