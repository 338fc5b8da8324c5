"""Support vector machines: kernels against the support vectors, and sums of them.

The tables are libsvm's: `coefficients` is f32[classes - 1, vectors], and a pair of classes i < j
takes the vectors of i by row j - 1, and those of j by row i (Chang and Lin, LIBSVM, 2011).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from builder.model import Array
from builder.sources.onnx_ml import scores
from builder.sources.onnx_ml.emitter import FLOAT, Emitter


def _kernel(e: Emitter, x: str, vectors: Array) -> str:
    """K(x, v) for every support vector v, f32[batch, vectors]."""
    kind = e.text("kernel_type", "LINEAR")
    gamma, offset, degree = (float(v) for v in (*e.floats("kernel_params"), 0, 0, 0)[:3])
    products = e.op("MatMul", x, e.constant(vectors.T.copy()))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        # exp(-gamma |x - v|^2), by differences: the sum of three parts would cancel
        apart = e.op("Sub", e.op("Unsqueeze", x, e.constant([1])), e.constant(vectors))
        squares = e.reduce("ReduceSumSquare", apart, keepdims=0)
        return e.op("Exp", e.op("Mul", squares, e.constant(-gamma)))
    inner = e.op("Add", e.op("Mul", products, e.constant(gamma)), e.constant(offset))
    if kind == "POLY":
        return e.op("Pow", inner, e.constant(degree))
    if kind == "SIGMOID":
        return e.op("Tanh", inner)
    raise e.refuse(f"its kernel '{kind}' isn't known")


def regressor(e: Emitter) -> None:
    """SVMRegressor: f32[batch, features] to f32[batch, 1]."""
    x = e.cast(e.node.input[0], FLOAT)
    coefficients, rho = e.floats("coefficients"), e.floats("rho")
    count = int(e.value("n_supports", 0))
    features = _kernel(e, x, e.floats("support_vectors").reshape(count, -1)) if count else x
    product = e.op("MatMul", features, e.constant(coefficients.reshape(-1, 1)))
    value = e.op("Add", product, e.constant(rho[:1]))
    if int(e.value("one_class", 0)):
        positive = e.op("Greater", value, e.constant(0.0))
        value = e.op("Where", positive, e.constant(1.0), e.constant(-1.0))
    scores.transform(e, value, e.node.output[0])


def classifier(e: Emitter) -> None:
    """SVMClassifier: f32[batch, features] to labels and the decisions of all pairs.

    Raises:
        UnsupportedError: It has no support vectors, or gives probabilities: libsvm finds them by
            an iteration that ends early.
    """
    per_class = e.integers("vectors_per_class")
    classes, total = len(per_class), int(per_class.sum())
    if not total:
        raise e.refuse("it has no support vectors", "Use LinearSVC for a linear machine.")
    if len(e.floats("prob_a")):
        raise e.refuse(
            "its probabilities are found by iteration",
            "Train it with probability=False, or wrap it in CalibratedClassifierCV.",
        )
    labels, values = e.node.output
    pairs = list(combinations(range(classes), 2))
    x = e.cast(e.node.input[0], FLOAT)
    kernel = _kernel(e, x, e.floats("support_vectors").reshape(total, -1))
    starts = np.concatenate([[0], np.cumsum(per_class)])
    rows = e.floats("coefficients").reshape(classes - 1, total)
    weights = np.zeros((total, len(pairs)), np.float32)
    for at, (i, j) in enumerate(pairs):
        weights[starts[i] : starts[i + 1], at] = rows[j - 1, starts[i] : starts[i + 1]]
        weights[starts[j] : starts[j + 1], at] = rows[i, starts[j] : starts[j + 1]]
    product = e.op("MatMul", kernel, e.constant(weights))
    decisions = e.op("Add", product, e.constant(e.floats("rho")))
    _votes(e, decisions, pairs, classes, labels)
    if classes == 2 and len(e.integers("classlabels_ints")) == 2:
        scores.both(e, decisions, values, share=False)
    else:
        scores.transform(e, decisions, values)


def _votes(
    e: Emitter, decisions: str, pairs: list[tuple[int, int]], classes: int, labels: str
) -> None:
    """Every pair votes for one of its classes; of equals the first class is taken."""
    first, second = (np.zeros((len(pairs), classes), np.float32) for _ in range(2))
    for at, (i, j) in enumerate(pairs):
        first[at, i] = second[at, j] = 1
    wins = e.cast(e.op("Greater", decisions, e.constant(0.0)), FLOAT)
    losses = e.op("Sub", e.constant(1.0), wins)
    votes = e.op(
        "Add",
        e.op("MatMul", wins, e.constant(first)),
        e.op("MatMul", losses, e.constant(second)),
    )
    scores.largest(e, votes, labels)
