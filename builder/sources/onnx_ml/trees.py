"""Ensembles of decision trees: all trees of a batch walk down at once, one level at a time.

The nodes of all trees stand in one table. A level is a lookup of every tree's node: which feature,
which threshold, which two children. Leaves are their own children, so all walk as deep as the
deepest tree goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from builder.model import Array
from builder.sources.onnx_ml import scores
from builder.sources.onnx_ml.emitter import FLOAT, Emitter

DEEPEST = 256
"""Levels: beyond that, a graph with one after the other is no longer sensible."""

SWAPPED = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": "BRANCH_EQ"}
"""Comparisons that are another one with its children changed over."""

AGGREGATES = {"SUM": "ReduceSum", "AVERAGE": "ReduceSum", "MIN": "ReduceMin", "MAX": "ReduceMax"}


@dataclass
class Forest:
    """Every node of every tree in one table; all comparisons are x <= threshold.

    Attributes:
        feature: i64[nodes].
        threshold: f32[nodes].
        left: i64[nodes], the row of the child where the comparison holds.
        right: i64[nodes], the row of the other child.
        nan_left: bool[nodes], whether NaN goes left.
        roots: i64[trees].
        depth: Comparisons on the longest way from a root to a leaf.
    """

    feature: list[int] = field(default_factory=list)
    threshold: list[np.float32] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    nan_left: list[bool] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    depth: int = 0

    def add(self, feature: int, threshold: np.float32, left: int, right: int, nan: bool) -> int:
        """Append a row, and give its number."""
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.left.append(left)
        self.right.append(right)
        self.nan_left.append(nan)
        return len(self.feature) - 1


def read(e: Emitter) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The node's trees, and the rows of their nodes by (tree, node).

    Raises:
        UnsupportedError: A comparison that isn't known, or trees that are too deep.
    """
    trees, ids = e.integers("nodes_treeids"), e.integers("nodes_nodeids")
    keys = list(zip(trees.tolist(), ids.tolist(), strict=True))
    forest, rows = Forest(), {key: row for row, key in enumerate(keys)}
    modes = e.strings("nodes_modes")
    columns = zip(
        e.integers("nodes_featureids").tolist(),
        e.floats("nodes_values"),
        e.integers("nodes_truenodeids").tolist(),
        e.integers("nodes_falsenodeids").tolist(),
        strict=True,
    )
    tracks = e.integers("nodes_missing_value_tracks_true").tolist() or [0] * len(keys)
    for row, (feature, value, true, false) in enumerate(columns):
        leaf = modes[row] == "LEAF"
        ends = (row, row) if leaf else (rows[keys[row][0], true], rows[keys[row][0], false])
        forest.add(0 if leaf else feature, np.float32(0 if leaf else value), *ends, False)
    for row, mode in enumerate(modes):
        if mode != "LEAF":
            _compare(e, forest, row, mode, bool(tracks[row]))
    forest.roots = _roots(forest, len(keys))
    forest.depth = _depth(forest)
    if forest.depth > DEEPEST:
        raise e.refuse(
            f"its trees have {forest.depth} levels, {DEEPEST} are the most that is unrolled",
            "Train it with a limited depth.",
        )
    return forest, rows


def _compare(e: Emitter, forest: Forest, row: int, mode: str, tracks: bool) -> None:
    """Bring a comparison into the form x <= threshold.

    In float32, x < t is x <= the number before t, and x = t is both x <= t and not that.
    """
    value, left, right = forest.threshold[row], forest.left[row], forest.right[row]
    # NaN compares false with everything, and differs from everything; a node may say otherwise.
    nan = tracks
    if mode in SWAPPED:
        mode, left, right, nan = SWAPPED[mode], right, left, not tracks
        if mode == "BRANCH_EQ":
            nan = False  # it differs: the first child of both ways of saying it
    before = np.nextafter(value, np.float32(-np.inf))
    if mode == "BRANCH_EQ":
        left = forest.add(forest.feature[row], before, right, left, False)
    elif mode == "BRANCH_LT":
        value = before
    elif mode != "BRANCH_LEQ":
        raise e.refuse(f"its comparison '{mode}' isn't known")
    forest.threshold[row], forest.left[row], forest.right[row] = value, left, right
    forest.nan_left[row] = nan


def _roots(forest: Forest, count: int) -> list[int]:
    """Those of the first `count` rows that are no other row's child."""
    sides = zip(forest.left, forest.right, strict=True)
    children = {child for row, side in enumerate(sides) for child in side if child != row}
    return [row for row in range(count) if row not in children]


def _depth(forest: Forest) -> int:
    """Levels until every walk stands at a leaf."""
    left, right = np.array(forest.left), np.array(forest.right)
    here, depth = np.unique(forest.roots), 0
    while True:
        here = here[left[here] != here]
        if not len(here) or depth > DEEPEST:
            return depth
        here = np.unique(np.concatenate([left[here], right[here]]))
        depth += 1


def walk(e: Emitter, forest: Forest) -> str:
    """The row of the leaf that each tree comes to, i64[batch, trees]."""
    x = e.cast(e.node.input[0], FLOAT)
    batch = e.op("Gather", e.op("Shape", x), e.constant([0]), axis=0)
    shape = e.op("Concat", batch, e.constant([len(forest.roots)]), axis=0)
    at = e.op("Expand", e.constant(np.array([forest.roots], np.int64)), shape)
    table: dict[str, Array] = {
        "feature": np.array(forest.feature, np.int64),
        "threshold": np.array(forest.threshold, np.float32),
        "left": np.array(forest.left, np.int64),
        "right": np.array(forest.right, np.int64),
    }
    column = {name: e.constant(array) for name, array in table.items()}
    missing = any(forest.nan_left)
    for _ in range(forest.depth):
        look = {name: e.op("Gather", value, at, axis=0) for name, value in column.items()}
        given = e.op("GatherElements", x, look["feature"], axis=1)
        goes = e.op("LessOrEqual", given, look["threshold"])
        if missing:
            nan_left = e.op("Gather", e.constant(np.array(forest.nan_left)), at, axis=0)
            goes = e.op("Or", goes, e.op("And", e.op("IsNaN", given), nan_left))
        at = e.op("Where", goes, look["left"], look["right"])
    return at


def _leaves(e: Emitter, prefix: str, rows: dict[tuple[int, int], int], width: int) -> Array:
    """What every row adds to every class or target, f32[rows, width]."""
    table = np.zeros((len(rows), width), np.float32)
    columns = zip(
        e.integers(f"{prefix}_treeids").tolist(),
        e.integers(f"{prefix}_nodeids").tolist(),
        e.integers(f"{prefix}_ids").tolist(),
        e.floats(f"{prefix}_weights"),
        strict=True,
    )
    for tree, node, at, weight in columns:
        table[rows[tree, node], at] += weight
    return table


def _sum(e: Emitter, at: str, table: Array, aggregate: str, trees: int) -> str:
    """What all trees say, f32[batch, width]."""
    said = e.op("Gather", e.constant(table), at, axis=0)
    total = e.reduce(AGGREGATES[aggregate], said, axis=1, keepdims=0)
    if aggregate == "AVERAGE":
        total = e.op("Div", total, e.constant(float(trees)))
    return total


def regressor(e: Emitter) -> None:
    """TreeEnsembleRegressor: f32[batch, features] to f32[batch, targets]."""
    forest, rows = read(e)
    table = _leaves(e, "target", rows, int(e.value("n_targets", 1)))
    aggregate = e.text("aggregate_function", "SUM")
    total = _sum(e, walk(e, forest), table, aggregate, len(forest.roots))
    base = e.floats("base_values")
    if len(base):
        total = e.op("Add", total, e.constant(base))
    scores.transform(e, total, e.node.output[0])


def classifier(e: Emitter) -> None:
    """TreeEnsembleClassifier: f32[batch, features] to labels and scores f32[batch, classes]."""
    forest, rows = read(e)
    labels = len(e.integers("classlabels_int64s"))
    ids, weights = e.integers("class_ids"), e.floats("class_weights").astype(np.float32)
    label, values = e.node.output
    base = e.floats("base_values")
    # onnxruntime takes the scores of class 0 for the second one's, where there are no others.
    single = labels == 2 and not ids.any()
    table = _leaves(e, "class", rows, labels)
    if single:
        table = table[:, :1]
        base = base[-1:]
    total = _sum(e, walk(e, forest), table, "SUM", len(forest.roots))
    if len(base):
        total = e.op("Add", total, e.constant(base))
    shares = bool((weights >= np.float32(0)).all())
    half = 0.5 if shares else 0.0
    if single:
        scores.above(e, total, half, label)
        scores.both(e, total, values, share=shares)
        return
    if labels == 2:
        second = e.op("Gather", total, e.constant([1]), axis=1)
        scores.above(e, second, half, label)
    else:
        scores.largest(e, total, label)
    scores.transform(e, total, values)
