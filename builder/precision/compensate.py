"""Error-compensated rounding: what one input's weight loses, the later ones give back.

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers"
(2022), algorithm 1: rounding the weights W [K, N] of y = x W input by input, each rounding error is
spread over the inputs that aren't rounded yet so that the error of y over the calibration rows is
least. It needs H = X'X only. Where H says nothing (no calibration), it is rounding to nearest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]

DAMPING = 0.01
"""Share of the mean of H's diagonal that is added to it, as in the paper."""

BLOCK = 128
"""Inputs whose errors are carried on one by one; the rest is done in one product for each block."""

Rounder = Callable[[int, Float], Float]
"""From the index k of an input and the weights [k.., N] as they are now, to rounded row k [N]."""


def compensated(
    weight: Float,
    gram: Float | None,
    rounder: Rounder,
    zeros: npt.NDArray[np.bool_] | None = None,
) -> Float:
    """Round a weight input by input.

    Args:
        weight: float32 [K, N], one column for each output.
        gram: X'X, float32 [K, K], of the rows x that the weight is multiplied with; None rounds to
            nearest.
        rounder: Rounds one row; it is called for k = 0..K-1 in order.
        zeros: bool [K, N]: what becomes or stays 0, and takes no error of others over; what is 0
            already unless given.

    Returns:
        The rounded weight, float32 [K, N].
    """
    work = weight.astype(np.float32).copy()
    inputs = len(work)
    rounded = np.empty_like(work)
    zeros = weight == 0 if zeros is None else zeros
    factor = None if gram is None else _factor(gram)
    if factor is None:
        for k in range(inputs):
            work[k][zeros[k]] = 0
            rounded[k] = rounder(k, work[k:])
        return rounded
    for start in range(0, inputs, BLOCK):
        end = min(start + BLOCK, inputs)
        errors = np.empty((end - start, work.shape[1]), np.float32)
        for k in range(start, end):
            wanted = work[k].copy()
            work[k][zeros[k]] = 0
            rounded[k] = rounder(k, work[k:])
            error = (wanted - rounded[k]) / factor[k, k]
            work[k + 1 : end] -= np.outer(factor[k, k + 1 : end], error)
            errors[k - start] = error
        work[end:] -= factor[start:end, end:].T @ errors
    return rounded


def _factor(gram: Float) -> Float | None:
    """The upper Cholesky factor of H's inverse; None where H says nothing."""
    hessian = gram.astype(np.float64)
    diagonal = np.diag(hessian).copy()
    if not np.isfinite(hessian).all() or diagonal.max(initial=0.0) <= 0:
        return None
    # An input that never was anything has no error to carry.
    damping = DAMPING * float(diagonal.mean())
    hessian[np.diag_indices_from(hessian)] += damping
    try:
        # H = U U' with U upper, from the lower factor of H back to front; then H^-1 = (U^-1)' U^-1.
        lower = np.linalg.cholesky(hessian[::-1, ::-1])
    except np.linalg.LinAlgError:
        return None
    return np.asarray(_inverse(np.asarray(lower, np.float64))[::-1, ::-1], np.float32)


def _inverse(lower: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of a lower triangular matrix, by halves: a third of the work of a general inverse."""
    if len(lower) <= BLOCK:
        return np.tril(np.linalg.inv(lower))
    half = len(lower) // 2
    result = np.zeros_like(lower)
    first, last = _inverse(lower[:half, :half]), _inverse(lower[half:, half:])
    result[:half, :half], result[half:, half:] = first, last
    result[half:, :half] = -last @ (lower[half:, :half] @ first)
    return result
