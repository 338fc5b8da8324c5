"""Precision: variants with fewer bits, each measured against fp32 and refused where it is wrong."""

from __future__ import annotations

from builder.precision.gate import CONVERSIONS, Outcome, judge, make, selftest_minimum
from builder.precision.metrics import METRICS, Metric

__all__ = ["CONVERSIONS", "METRICS", "Metric", "Outcome", "judge", "make", "selftest_minimum"]
