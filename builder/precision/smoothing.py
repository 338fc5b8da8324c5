"""Round a product on both sides to 8 bits: which weights, which scales, which channels apart.

y = x W with x rounded row by row while the page runs, and W [K, N] rounded once here. Three things
keep it right, each chosen by the error of y on calibration rows:

* smoothing (Xiao et al., "SmoothQuant", 2022): channel k of x is divided by s_k and row k of W
  multiplied by it, s_k = peak(x_k)^a / peak(W_k)^(1 - a), so that neither has all of the range;
* outlier channels apart: the few channels that would set the step of every row stay in fp32;
* error compensation (`builder.precision.compensate`) of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from builder.precision.activations import Statistics
from builder.precision.compensate import compensated
from builder.precision.rounding import LEVELS

Float = npt.NDArray[np.float32]

EXPONENTS = (0.0, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Tried for a in the formula above."""

OUTLIERS = (0, 4, 8)
"""Numbers of channels that are tried to be kept apart."""

GAIN = 0.85
"""More channels apart must bring the error below this share of what fewer reach."""

FLOOR = 0.3
"""Peaks of channels count as at least this share of their median: a channel that calibration
hardly saw isn't blown up (without it Whisper's encoder broke)."""

TRIAL_ROWS, TRIAL_OUTPUTS = 256, 256
"""Rows and outputs on which choices are tried: evenly spaced ones."""

NORM = 6
"""Channels are ranked as outliers by this norm over the rows: near the maximum, less by chance."""


@dataclass(frozen=True)
class Smoothing:
    """What is done to an activation before it is rounded: one for all weights that it meets.

    Attributes:
        inverse: float32 [K]: what channels are multiplied with; 0 for a channel kept apart.
        factor: float32 [K]: what rows of weights are multiplied with: 1 / inverse, or 1.
        apart: int64 [k]: the channels kept apart, ascending.
    """

    inverse: Float
    factor: Float
    apart: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """What a smoothed image is rounded to: level = value / step + zero.

    Attributes:
        step: One for all channels: smoothing sets them apart.
        zero: uint8 [C]: the level of 0 in each channel.
    """

    step: float
    zero: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Rounded:
    """A weight W [K, N]: row k is levels[k] * scale * inverse[k], or exact where kept apart.

    Attributes:
        levels: int8 [K, N], -127 to 127; 0 in rows kept apart.
        scale: float32 [N].
        exact: float32 [k, N]: rows kept apart.
    """

    levels: npt.NDArray[np.int8]
    scale: Float
    exact: Float

    def dense(self, smoothing: Smoothing) -> Float:
        """The weight that it stands for, float32 [K, N]."""
        result = self.levels.astype(np.float32) * self.scale * smoothing.inverse[:, None]
        result[smoothing.apart] = self.exact
        return result


def choose(statistics: Statistics, weights: Sequence[Float]) -> Smoothing:
    """The smoothing with the least error of all products of an activation with its weights.

    Args:
        statistics: Of the activation; its rows are what is tried on.
        weights: float32 [K, N_i] each.
    """
    together = np.concatenate(weights, axis=1)
    together = together[:, :: max(1, -(-together.shape[1] // TRIAL_OUTPUTS))]
    rows = statistics.rows[:: max(1, -(-len(statistics.rows) // TRIAL_ROWS))]
    exact = rows @ together
    best, least = _smoothing(statistics.peak, rows, together, 0.0, 0), np.inf
    for count in OUTLIERS:
        if count * 4 > len(together):
            break
        for exponent in EXPONENTS:
            candidate = _smoothing(statistics.peak, rows, together, exponent, count)
            error = _error(rows, together, exact, candidate)
            wanted = least if count == best.apart.size else least * GAIN
            if error < wanted:
                best, least = candidate, error
    return best


def none(channels: int) -> Smoothing:
    """What leaves an activation as it is."""
    ones = np.ones(channels, np.float32)
    return Smoothing(ones, ones, np.zeros(0, np.int64))


def round_weight(weight: Float, smoothing: Smoothing, statistics: Statistics) -> Rounded:
    """Round a weight to int8 for each output, compensated for the activation that it meets.

    Args:
        weight: float32 [K, N].
        smoothing: Of the activation.
        statistics: Of the activation.
    """
    kept = weight[smoothing.apart]
    smooth = weight * smoothing.factor[:, None]
    smooth[smoothing.apart] = 0
    peak = np.abs(smooth).max(axis=0)
    scale = np.where(peak > 0, peak / np.float32(LEVELS), np.float32(1)).astype(np.float32)
    gram = statistics.gram
    if gram is not None:
        gram = gram * np.outer(smoothing.inverse, smoothing.inverse)

    def nearest(_k: int, rows: Float) -> Float:
        return np.asarray(np.clip(np.rint(rows[0] / scale), -LEVELS, LEVELS) * scale, np.float32)

    rounded = compensated(smooth, gram, nearest)
    rounded[smoothing.apart] = 0
    return Rounded(np.rint(rounded / scale).astype(np.int8), scale, kept)


def _smoothing(peaks: Float, rows: Float, weight: Float, exponent: float, count: int) -> Smoothing:
    peak = np.maximum(peaks, FLOOR * np.median(peaks))
    other = np.abs(weight).max(axis=1)
    other = np.maximum(other, FLOOR * np.median(other))
    usable = (peak > 0) & (other > 0)
    factor = np.ones(len(peak), np.float32)
    if exponent:
        factor[usable] = peak[usable] ** exponent / other[usable] ** (1 - exponent)
        # A common factor changes nothing; near 1 the numbers stay readable.
        factor /= np.exp(np.mean(np.log(factor)))
    apart = np.zeros(0, np.int64)
    if count:
        weighed = np.mean(np.square(rows / factor, dtype=np.float64) ** (NORM // 2), axis=0)
        apart = np.sort(np.argsort(-weighed, kind="stable")[:count])
    factor[apart] = 1
    inverse = (1 / factor).astype(np.float32)
    inverse[apart] = 0
    return Smoothing(inverse, factor, apart)


def _error(rows: Float, weight: Float, exact: Float, smoothing: Smoothing) -> float:
    """Mean squared error of the product, both sides rounded to the nearest."""
    smooth = weight * smoothing.factor[:, None]
    smooth[smoothing.apart] = 0
    scale = np.maximum(np.abs(smooth).max(axis=0) / LEVELS, 1e-30)
    levels = np.rint(smooth / scale)
    scaled = rows * smoothing.inverse
    step = np.maximum(np.abs(scaled).max(axis=1, keepdims=True) / LEVELS, 1e-30)
    product = (np.rint(scaled / step) @ levels) * step * scale
    product += rows[:, smoothing.apart] @ weight[smoothing.apart]
    return float(np.mean(np.square(product - exact)))
