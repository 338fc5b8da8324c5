"""numpy's comparison, for arrays of any element type."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(got: Any, expected: Any, *, rtol: float = 1e-7, atol: float = 0) -> None:
    """`np.testing.assert_allclose`, whose types don't admit an array of an unknown number type."""
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
