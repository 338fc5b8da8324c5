"""Class scores to the best few: softmax where asked for, then top-k."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from builder.model import TensorSpec
from builder.prepost.draft import Draft, Operand


def classification_post(
    logits: TensorSpec,
    *,
    softmax: bool,
    k: int = 5,
    scores_name: str = "scores",
    classes_name: str = "classes",
) -> ir.Model:
    """Build the graph: scores for one picture to `scores` f32[k] and `classes` i64[k], best first.

    Args:
        logits: The model's output: one score per class, whatever the axes of size 1 around them.
        softmax: Whether to turn scores into probabilities.
        k: How many; fewer where the model has fewer classes.
        scores_name: Of the first output.
        classes_name: Of the second output.
    """
    g = Draft("classification_post")
    values = g.input(logits.name, logits.dtype, logits.shape)
    values = g.add("Reshape", values, np.array([-1]), name="per_class")
    if logits.dtype != "float32":
        values = g.add("Cast", values, to=ir.DataType.FLOAT, name="float_scores")
    if softmax:
        values = g.add("Softmax", values, axis=0, name="probabilities")
    rows: int | str = "k"
    count: Operand
    axes = [axis for axis in logits.shape[1:] if isinstance(axis, int)]
    if axes and len(axes) == len(logits.shape) - 1:
        rows = min(k, math.prod(axes))
        count = np.array([rows])
    else:
        classes = g.add("Shape", values, name="class_count")
        count = g.add("Min", classes, np.array([k]), name="k")
    best, index = g.add_many("TopK", values, count, outputs=2, name="best")
    g.output(
        best,
        scores_name,
        "float32",
        [rows],
        description="Probabilities of the best classes." if softmax else "The best scores.",
    )
    g.output(
        index,
        classes_name,
        "int64",
        [rows],
        description="Their numbers, best first: places in the list of labels.",
    )
    return g.model()
