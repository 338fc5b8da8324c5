"""What classifiers and regressors of ai.onnx.ml do to their scores at the end.

The specification says little; what is written here is what onnxruntime does, and every import is
held against it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from builder.sources.onnx_ml.emitter import FLOAT, INT64, Emitter

TINY = 1e-7
"""Scores nearer to zero count as none for SOFTMAX_ZERO."""

WINITZKI = 0.147
"""The constant in Winitzki's approximation of the inverse error function (2008)."""


def _none(_e: Emitter, scores: str) -> str:
    return scores


def _logistic(e: Emitter, scores: str) -> str:
    return e.op("Sigmoid", scores)


def _softmax(e: Emitter, scores: str) -> str:
    return e.op("Softmax", scores, axis=-1)


def _softmax_zero(e: Emitter, scores: str) -> str:
    """Softmax among the scores that aren't zero; zeros stay."""
    largest = e.reduce("ReduceMax", scores)
    powers = e.op("Exp", e.op("Sub", scores, largest))
    counts = e.cast(e.op("Greater", e.op("Abs", scores), e.constant(TINY)), FLOAT)
    kept = e.op("Mul", powers, counts)
    total = e.reduce("ReduceSum", kept)
    return e.op("Div", kept, total)


def _probit(e: Emitter, scores: str) -> str:
    """sqrt(2) erfinv(2 p - 1), by Winitzki's approximation, as onnxruntime computes it."""
    x = e.op("Sub", e.op("Mul", scores, e.constant(2.0)), e.constant(1.0))
    log = e.op("Log", e.op("Sub", e.constant(1.0), e.op("Mul", x, x)))
    v = e.op(
        "Add",
        e.op("Mul", log, e.constant(0.5)),
        e.constant(2 / (np.pi * WINITZKI)),
    )
    v2 = e.op("Mul", log, e.constant(1 / WINITZKI))
    root = e.op("Sqrt", e.op("Sub", e.op("Mul", v, v), v2))
    size = e.op("Sqrt", e.op("Sub", root, v))
    return e.op("Mul", e.op("Mul", e.op("Sign", x), size), e.constant(float(np.sqrt(2))))


TRANSFORMS: dict[str, Callable[[Emitter, str], str]] = {
    "NONE": _none,
    "LOGISTIC": _logistic,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
"""By the attribute `post_transform`."""


def transform(e: Emitter, scores: str, to: str) -> None:
    """Write the scores f32[batch, n], transformed as the node asks for, to `to`."""
    kind = e.text("post_transform", "NONE")
    if kind not in TRANSFORMS:
        raise e.refuse(f"its post_transform '{kind}' isn't known")
    e.op("Identity", TRANSFORMS[kind](e, scores), to=to)


def both(e: Emitter, score: str, to: str, *, share: bool) -> None:
    """Write the scores f32[batch, 2] of both classes, of which only the second one's is known.

    Args:
        e: Of the node.
        score: f32[batch, 1].
        to: The name of the result.
        share: Whether it is the second one's share of 1; else 0 is between the two.
    """
    kind = e.text("post_transform", "NONE")
    if kind == "PROBIT":
        raise e.refuse("its post_transform 'PROBIT' isn't defined for one score of two classes")
    logistic = kind == "LOGISTIC"
    other = e.op("Sub", e.constant(1.0), score) if share and not logistic else e.op("Neg", score)
    joined = e.op("Concat", other, score, axis=1)
    e.op("Sigmoid" if logistic else "Identity", joined, to=to)


def label(e: Emitter, index: str, to: str) -> None:
    """Write the labels that stand at `index`, i64[batch], to `to`; strings are codes by now."""
    labels = e.integers("classlabels_int64s")
    if not len(labels):
        labels = e.integers("classlabels_ints")
    e.op("Gather", e.constant(labels), index, axis=0, to=to)


def largest(e: Emitter, scores: str, to: str) -> None:
    """Write the label of the largest score, the first one of equals, to `to`."""
    label(e, e.op("ArgMax", scores, axis=1, keepdims=0), to)


def above(e: Emitter, score: str, threshold: float, to: str) -> None:
    """Write the second label where the score f32[batch, 1] is above the threshold, to `to`."""
    over = e.op("Greater", score, e.constant(threshold))
    index = e.op("Reshape", e.cast(over, INT64), e.constant([-1]))
    label(e, index, to)
