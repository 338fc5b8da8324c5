"""Whether an imported graph gives what its framework gave, and in words where it doesn't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.model import Array

Tolerances = Mapping[str, tuple[float, float]]

TOLERANCES: Tolerances = {
    "float16": (1e-2, 1e-2),
    "float32": (1e-3, 1e-4),
    "float64": (1e-6, 1e-8),
}
"""Relative error, and absolute error as a part of the output's largest magnitude, by dtype: about a
hundred times what summing in another order costs. Integers and booleans must be equal."""


def difference(
    expected: Mapping[str, Array],
    got: Mapping[str, Any],
    framework: str,
    tolerances: Tolerances = TOLERANCES,
) -> str:
    """The first output that isn't near enough, in words; empty where all are.

    Args:
        expected: What the framework gave, by output.
        got: What the graph gave, by output.
        framework: Its name.
        tolerances: What is near enough, by dtype.
    """
    for name, want in expected.items():
        have = np.asarray(got[name])
        if want.shape != have.shape or want.dtype != have.dtype:
            return (
                f"output '{name}' is {have.dtype}{list(have.shape)}, "
                f"{framework}'s {want.dtype}{list(want.shape)}"
            )
        relative, absolute = tolerances.get(want.dtype.name, (0.0, 0.0))
        with np.errstate(invalid="ignore"):
            finite = want[np.isfinite(want)].astype(np.float64)
            scale = float(np.abs(finite).max(initial=0))
            if np.allclose(want, have, rtol=relative, atol=absolute * scale, equal_nan=True):
                continue
            worst = np.nanmax(np.abs(want.astype(np.float64) - have.astype(np.float64)))
        return (
            f"output '{name}' is up to {worst:.3g} from {framework}'s, whose largest is {scale:.3g}"
        )
    return ""
