"""Precision: variants with fewer bits, each measured against fp32 and refused where it is wrong."""

from __future__ import annotations

from builder.precision.choice import dominated
from builder.precision.forms import FORMS, Form
from builder.precision.gate import Demand, Outcome, judge, make
from builder.precision.metrics import METRICS, Metric
from builder.precision.selftest import minimum as selftest_minimum
from builder.precision.subject import Subject

__all__ = [
    "FORMS",
    "METRICS",
    "Demand",
    "Form",
    "Metric",
    "Outcome",
    "Subject",
    "dominated",
    "judge",
    "make",
    "selftest_minimum",
]
