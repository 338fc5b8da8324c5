"""Rounding of weights."""

from __future__ import annotations

import numpy as np

from builder.precision.rounding import fits, from_int8, to_half, to_int8

RNG = np.random.default_rng(1)


def test_int8_grid_by_hand() -> None:
    levels, scale = to_int8(np.array([[127, -63.5, 1], [0, 0, 0]], np.float32), 0)
    np.testing.assert_array_equal(levels, [[127, -64, 1], [0, 0, 0]])
    np.testing.assert_array_equal(scale, [1, 1])


def test_int8_error_is_half_a_step_of_each_channel() -> None:
    factors = np.array([[[1], [100]] * 4])
    array = (RNG.standard_normal((4, 8, 5)) * factors).astype(np.float32)
    for axis in range(3):
        levels, scale = to_int8(array, axis)
        steps = np.expand_dims(scale, tuple(i for i in range(3) if i != axis))
        assert (np.abs(from_int8(levels, scale, axis) - array) <= steps * 0.5001).all()
        assert levels.min() >= -127


def test_taps_keep_their_sum() -> None:
    filters = (RNG.standard_normal((64, 2, 3, 3)) * 10).astype(np.float32)
    exact = filters.astype(np.float64).sum(axis=(2, 3))
    nearest = to_half(filters).astype(np.float64).sum(axis=(2, 3))
    diffused = to_half(filters, taps=True).astype(np.float64).sum(axis=(2, 3))
    assert np.abs(diffused - exact).max() < 0.2 * np.abs(nearest - exact).max()
    spacing = np.spacing(np.abs(filters).max(axis=(2, 3), keepdims=True).astype(np.float16))
    assert (np.abs(to_half(filters, taps=True) - filters) <= spacing).all()


def test_zeros_stay_zero() -> None:
    filters = np.array([[[0.1, 0, 0.2, 0]]], np.float32)
    assert (to_half(filters, taps=True)[0, 0, [1, 3]] == 0).all()


def test_largest_half_stays_finite() -> None:
    assert np.isfinite(to_half(np.array([[[65504, 65500]]], np.float32), taps=True)).all()


def test_a_weight_with_a_few_huge_values_has_no_scale() -> None:
    array = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)
    levels, _ = to_int8(array, 0)
    assert fits(levels, array)
    array[:, 0] = 1e4
    levels, _ = to_int8(array, 0)
    assert not fits(levels, array)
    sparse = np.where(np.eye(64, dtype=bool), array, 0).astype(np.float32)
    levels, _ = to_int8(sparse, 0)
    assert fits(levels, sparse), "zeros that were there before don't count"
