"""Signal-to-noise ratio of two arrays: the measure behind every comparison of the builder."""

from __future__ import annotations

import math

import numpy as np

from builder.model import Array

SNR_CAP = 200.0
"""dB. What equal arrays get, so that the figure stays a JSON number; `-SNR_CAP` is "wrong"."""


def snr_of(reference: Array, variant: Array) -> float:
    """Signal-to-noise ratio of one array in dB, 10 log10(sum r^2 / sum (v - r)^2).

    Arrays of integers, booleans or strings must be equal. NaN and infinities must stand at the same
    places, and don't count otherwise. Where the reference is all zero, the signal is taken as one
    of amplitude 1: what is left of the variant is then its absolute error.

    Args:
        reference: Any shape and dtype.
        variant: The same shape; another shape is wrong.

    Returns:
        Within [-200, 200]: 200 for equal arrays, -200 for wrong ones.
    """
    if reference.shape != variant.shape:
        return -SNR_CAP
    if reference.dtype.kind != "f" or variant.dtype.kind != "f":
        return SNR_CAP if np.array_equal(reference, variant) else -SNR_CAP
    ref, got = reference.astype(np.float64), variant.astype(np.float64)
    finite = np.isfinite(ref)
    if not np.array_equal(ref[~finite], got[~finite], equal_nan=True):
        return -SNR_CAP
    if not np.isfinite(got[finite]).all():
        return -SNR_CAP
    ref, got = ref[finite], got[finite]
    noise = float(np.sum(np.square(got - ref)))
    if noise == 0:
        return SNR_CAP
    signal = float(np.sum(np.square(ref))) or float(ref.size)
    return max(-SNR_CAP, min(SNR_CAP, 10 * math.log10(signal / noise)))
