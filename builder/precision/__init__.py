"""Precision: variants with fewer bits, each measured against fp32 and refused where it is wrong."""

from __future__ import annotations

from builder.precision.choice import STORAGE, dominated
from builder.precision.forms import FORMS, Form
from builder.precision.gate import Demand, Outcome, judge, make
from builder.precision.lighter import HELD_TO, PASSES, Ladder, Lighter, Passed
from builder.precision.lighter import events as lighter_events
from builder.precision.metrics import METRICS, Metric
from builder.precision.selftest import minimum as selftest_minimum
from builder.precision.subject import Subject

__all__ = [
    "FORMS",
    "HELD_TO",
    "METRICS",
    "PASSES",
    "STORAGE",
    "Demand",
    "Form",
    "Ladder",
    "Lighter",
    "Metric",
    "Outcome",
    "Passed",
    "Subject",
    "dominated",
    "judge",
    "lighter_events",
    "make",
    "selftest_minimum",
]
