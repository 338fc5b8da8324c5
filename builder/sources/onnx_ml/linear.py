"""Linear models: a product and a sum."""

from __future__ import annotations

from builder.sources.onnx_ml import scores
from builder.sources.onnx_ml.emitter import FLOAT, Emitter


def _scores(e: Emitter, rows: int) -> str:
    """X W^T + b, f32[batch, rows]."""
    weights = e.floats("coefficients").reshape(rows, -1)
    x = e.cast(e.node.input[0], FLOAT)
    product = e.op("MatMul", x, e.constant(weights.T.copy()))
    bias = e.floats("intercepts")
    return e.op("Add", product, e.constant(bias)) if len(bias) else product


def regressor(e: Emitter) -> None:
    """LinearRegressor: f32[batch, features] to f32[batch, targets]."""
    scores.transform(e, _scores(e, int(e.value("targets", 1))), e.node.output[0])


def classifier(e: Emitter) -> None:
    """LinearClassifier: f32[batch, features] to labels [batch] and scores f32[batch, classes]."""
    labels = max(len(e.integers("classlabels_ints")), len(e.integers("classlabels_int64s")))
    rows = len(e.floats("intercepts")) or labels
    label, values = e.node.output
    found = _scores(e, rows)
    if rows == 1 and labels == 2:
        scores.above(e, found, 0.0, label)
        scores.both(e, found, values, share=False)
        return
    scores.largest(e, found, label)
    scores.transform(e, found, values)
