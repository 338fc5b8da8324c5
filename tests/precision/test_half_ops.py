"""The tables of half precision against the kernels of the web runtime."""

from __future__ import annotations

from builder.precision import half_ops
from builder.webruntime.support import webgpu_operators


def test_what_computes_in_half_has_a_webgpu_kernel() -> None:
    kernels = {operator for _, operator in webgpu_operators()}
    assert half_ops.COMPUTE - kernels == set()


def test_tables_are_disjoint() -> None:
    assert not half_ops.COMPUTE & half_ops.MOVERS
    assert not half_ops.NEUTRAL & (half_ops.COMPUTE | half_ops.MOVERS)
