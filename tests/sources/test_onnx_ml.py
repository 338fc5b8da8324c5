"""Operators of ai.onnx.ml, written with standard ones, give what onnxruntime gives for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from builder.errors import UnsupportedError
from builder.session import Session
from builder.sources import onnx_ml

ML = "ai.onnx.ml"
RNG = np.random.default_rng(5)
ROWS = RNG.normal(0, 2, (40, 3)).astype(np.float32)
ROWS[:4] = 0
HOLES = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS).astype(np.float32)
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(
    op: str, outputs: Mapping[str, int], *, dtype: Any = FLOAT, opset: Any = 17, **attributes: Any
) -> onnx.ModelProto:
    """A graph of one node of the domain, `x` [batch, columns] to outputs of element types."""
    node = helper.make_node(op, ["x"], list(outputs), domain=ML, name="it", **attributes)
    ends = [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    given = [helper.make_tensor_value_info("x", dtype, ["batch", "columns"])]
    graph = helper.make_graph([node], "one", given, ends)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def both(proto: onnx.ModelProto, x: np.ndarray[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What onnxruntime makes of the original, and of what was written in its place."""
    lowered = onnx_ml.lower(proto)
    assert all(node.domain != ML for node in lowered.proto.graph.node)
    feeds = {"x": x}
    return (
        Session(proto.SerializeToString()).run(feeds),
        Session(lowered.proto.SerializeToString()).run(feeds),
    )


def assert_same(proto: onnx.ModelProto, x: np.ndarray[Any, Any], atol: float = 2e-6) -> None:
    want, have = both(proto, x)
    for name, array in want.items():
        assert have[name].dtype == array.dtype
        assert have[name].shape == array.shape
        if array.dtype.kind == "f":
            np.testing.assert_allclose(have[name], array, rtol=1e-4, atol=atol)
        else:
            np.testing.assert_array_equal(have[name], array)


COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "scaler": ("Scaler", {"offset": [1.0, 2.0, -3.0], "scale": [0.5, 2.0, 4.0]}),
    "one scale for all": ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    "normalizer, l1": ("Normalizer", {"norm": "L1"}),
    "normalizer, l2": ("Normalizer", {"norm": "L2"}),
    "normalizer, max": ("Normalizer", {"norm": "MAX"}),
    "binarizer": ("Binarizer", {"threshold": 0.3}),
    "imputer": (
        "Imputer",
        {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 0.0},
    ),
}


@pytest.mark.parametrize(("op", "attributes"), COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("opset", [13, 17, 20])
def test_columns(op: str, attributes: dict[str, Any], opset: int) -> None:
    assert_same(model(op, {"y": FLOAT}, opset=opset, **attributes), ROWS)


def test_missing_numbers_are_filled_in() -> None:
    filled: dict[str, Any] = {
        "imputed_value_floats": [1.0, 2.0, 3.0],
        "replaced_value_float": float("nan"),
    }
    proto = model("Imputer", {"y": FLOAT}, **filled)
    assert_same(proto, HOLES)
    assert np.isnan(HOLES).any()


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_models(transform: str) -> None:
    coefficients, intercepts = RNG.normal(0, 1, 9).tolist(), [0.1, -0.2, 0.3]
    told: dict[str, Any] = {
        "coefficients": coefficients,
        "intercepts": intercepts,
        "post_transform": transform,
    }
    outputs = {"label": INT64, "scores": FLOAT}
    assert_same(model("LinearClassifier", outputs, classlabels_ints=[5, 7, 9], **told), ROWS)
    assert_same(model("LinearRegressor", {"y": FLOAT}, targets=3, **told), ROWS)


def tree(mode: str, tracks: list[int] | None = None, **more: Any) -> dict[str, Any]:
    """Two trees: feature 0 against 0, then 1 against 0.5; and feature 2 against ROWS[7, 2]."""
    return {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
        "nodes_values": [0.0, 0.5, 0.0, 0.0, 0.0, float(ROWS[7, 2]), 0.0, 0.0],
        "nodes_modes": [mode, mode, "LEAF", "LEAF", "LEAF", mode, "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": tracks or [0] * 8,
        **more,
    }


LEAVES: dict[str, Any] = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2]}
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def regressor(mode: str, **more: Any) -> onnx.ModelProto:
    leaves = {f"target_{key}": value for key, value in LEAVES.items()}
    weights = {"target_ids": [0] * 5, "target_weights": [1.0, 2.0, 4.0, 8.0, 16.0]}
    return model(
        "TreeEnsembleRegressor",
        {"y": FLOAT},
        n_targets=1,
        **leaves,
        **weights,
        **tree(mode, **more),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tracks", [0, 1], ids=["", "NaN goes the true way"])
def test_comparisons_of_trees(mode: str, tracks: int) -> None:
    """Rows of zeros and the threshold's own row stand where < and <= differ."""
    proto = regressor(mode, tracks=[tracks] * 8)
    assert_same(proto, ROWS)
    assert_same(proto, HOLES)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_what_trees_say_together(aggregate: str) -> None:
    assert_same(regressor("BRANCH_LEQ", aggregate_function=aggregate), ROWS)
    assert_same(regressor("BRANCH_LEQ", aggregate_function=aggregate, base_values=[100.0]), ROWS)


CLASSES: dict[str, dict[str, Any]] = {
    "one score, a share": {"class_ids": [0] * 5, "class_weights": [0.2, 0.5, 0.1, 0.4, 0.3]},
    "one score, signed": {"class_ids": [0] * 5, "class_weights": [-2.0, 1.0, 0.5, 0.3, -0.1]},
    "the second one's": {"class_ids": [1] * 5, "class_weights": [-2.0, 1.0, 0.5, 0.3, -0.1]},
    "one score with a base": {
        "class_ids": [0] * 5,
        "class_weights": [-2.0, 1.0, 0.5, 0.3, -0.1],
        "base_values": [0.4],
    },
}


PAIRS: dict[str, Any] = {
    key: [entry for entry in value for _ in range(2)] for key, value in LEAVES.items()
}


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
@pytest.mark.parametrize("weights", [[0.5, 0.5, 0.1, 0.9, 0.3, 0.7, 0.0, 1.0, 0.8, 0.2], None])
def test_trees_with_scores_of_both_classes(transform: str, weights: list[float] | None) -> None:
    proto = model(
        "TreeEnsembleClassifier",
        {"label": INT64, "scores": FLOAT},
        classlabels_int64s=[0, 1],  # onnxruntime numbers them so, whatever they are called
        post_transform=transform,
        class_ids=[0, 1] * 5,
        class_weights=weights or RNG.normal(0, 1, 10).tolist(),
        **{f"class_{key}": value for key, value in PAIRS.items()},
        **tree("BRANCH_LEQ"),
    )
    assert_same(proto, ROWS)


@pytest.mark.parametrize("classes", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_trees_of_two_classes(classes: dict[str, Any], transform: str) -> None:
    leaves = {f"class_{key}": value for key, value in LEAVES.items()}
    outputs = {"label": INT64, "scores": FLOAT}
    proto = model(
        "TreeEnsembleClassifier",
        outputs,
        classlabels_int64s=[3, 4],
        post_transform=transform,
        **leaves,
        **classes,
        **tree("BRANCH_LEQ"),
    )
    assert_same(proto, ROWS)


VECTORS = RNG.normal(0, 1, (6, 3)).astype(np.float32)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_support_vector_machines(kernel: str) -> None:
    told: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.1, 3.0],
        "support_vectors": VECTORS.ravel().tolist(),
    }
    alone: dict[str, Any] = {
        "coefficients": RNG.normal(0, 1, 6).tolist(),
        "rho": [0.2],
        "n_supports": 6,
    }
    assert_same(model("SVMRegressor", {"y": FLOAT}, **told, **alone), ROWS, atol=1e-4)
    three: dict[str, Any] = {
        "coefficients": RNG.normal(0, 1, 12).tolist(),
        "rho": [0.2, -0.1, 0.05],
        "vectors_per_class": [2, 3, 1],
        "classlabels_ints": [10, 20, 30],
    }
    outputs = {"label": INT64, "scores": FLOAT}
    assert_same(model("SVMClassifier", outputs, **told, **three), ROWS, atol=1e-4)
    two: dict[str, Any] = {
        "coefficients": RNG.normal(0, 1, 6).tolist(),
        "rho": [0.2],
        "vectors_per_class": [2, 4],
        "classlabels_ints": [10, 20],
    }
    assert_same(model("SVMClassifier", outputs, **told, **two), ROWS, atol=1e-4)


def test_integers_of_categories() -> None:
    x = np.array([[3], [1], [9], [2]], np.int64)
    encoder = model("OneHotEncoder", {"y": FLOAT}, dtype=INT64, cats_int64s=[1, 2, 3], zeros=1)
    assert_same(encoder, x)
    mapped: dict[str, Any] = {
        "keys_int64s": [1, 2, 3],
        "values_floats": [0.5, 0.25, 0.125],
        "default_float": 9.0,
    }
    assert_same(model("LabelEncoder", {"y": FLOAT}, dtype=INT64, **mapped), x)


def test_words_become_places_in_a_vocabulary() -> None:
    """One-hot columns of words, a label of words: what goes in and out is numbered."""
    hot = helper.make_node("OneHotEncoder", ["port"], ["hot"], domain=ML, cats_strings=["S", "C"])
    flat = helper.make_node("Flatten", ["hot"], ["flat"])
    linear = helper.make_node(
        "LinearClassifier",
        ["flat"],
        ["label", "scores"],
        domain=ML,
        coefficients=[1.0, -1.0, -1.0, 1.0],
        intercepts=[0.25, 0.0],
        classlabels_strings=["yes", "no"],
    )
    zipped = helper.make_node(
        "ZipMap", ["scores"], ["odds"], domain=ML, classlabels_strings=["yes", "no"]
    )
    odds = helper.make_value_info(
        "odds",
        helper.make_sequence_type_proto(
            helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
        ),
    )
    graph = helper.make_graph(
        [hot, flat, linear, zipped],
        "words",
        [helper.make_tensor_value_info("port", STRING, ["batch", 1])],
        [helper.make_tensor_value_info("label", STRING, ["batch"]), odds],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    lowered = onnx_ml.lower(proto)
    assert dict(lowered.vocabularies) == {"port": ("C", "S"), "label": ("no", "yes")}
    words = np.array([["S"], ["C"], ["X"]], object)
    want = Session(proto.SerializeToString()).run({"port": words})
    places = np.array([[1], [0], [-1]], np.int64)
    have = Session(lowered.proto.SerializeToString()).run({"port": places})
    assert want["label"].tolist() == ["yes", "no", "yes"]
    assert have["label"].tolist() == [1, 0, 1]
    assert [[row["yes"], row["no"]] for row in want["odds"]] == have["odds"].tolist()
    again = onnx_ml.Original(proto, lowered).run({"port": places})
    assert again["label"].tolist() == [1, 0, 1]
    assert again["odds"].tolist() == have["odds"].tolist()


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model(
                "TreeEnsembleRegressor",
                {"y": FLOAT},
                n_targets=1,
                **{f"target_{k}": v for k, v in LEAVES.items()},
                target_ids=[0] * 5,
                target_weights=[1.0] * 5,
                **tree("BRANCH_MEMBER"),
            ),
            "'it'.*'BRANCH_MEMBER' isn't known",
        ),
        (
            helper.make_model(
                helper.make_graph(
                    [helper.make_node("StringNormalizer", ["x"], ["y"], name="lower")],
                    "text",
                    [helper.make_tensor_value_info("x", STRING, [1])],
                    [helper.make_tensor_value_info("y", STRING, [1])],
                )
            ),
            "'lower' .StringNormalizer.: it works on the characters of 'x'.*categories are fine",
        ),
        (model("Scaler", {"y": FLOAT}, opset=8, offset=[0.0], scale=[1.0]), ""),
    ],
    ids=["an unknown comparison", "text", "an old opset"],
)
def test_refusals(proto: onnx.ModelProto, message: str) -> None:
    if not message:
        assert_same(proto, ROWS)  # old, and of nothing that has changed since
        return
    with pytest.raises(UnsupportedError, match=message):
        onnx_ml.lower(proto)


def test_a_graph_without_any_comes_back_as_it_is() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    proto = helper.make_model(helper.make_graph([node], "plain", ends[:1], ends[1:]))
    assert onnx_ml.lower(proto).proto is proto
