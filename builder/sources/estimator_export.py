"""Convert a fitted estimator to ONNX. Runs in a process of its own: see `estimator`.

`model.onnx` lies beside the request then; it may hold operators of ai.onnx.ml (see `onnx_ml`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from builder.errors import ImportMismatchError, SourceError
from builder.model import Array
from builder.session import Session
from builder.sources import process
from builder.sources.estimator_columns import Column, columns_of, nested, rows, takes_missing

OPSETS = {"": 17, "ai.onnx.ml": 3}

CLOSE = 1e-4
"""Difference of float32 results from float64 ones that is rounding, relative to the largest."""


def _from_pickle(path: Path) -> Any:
    import joblib

    return joblib.load(path)


def _from_lightgbm(path: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=str(path))


def _from_xgboost(path: Path) -> Any:
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    return booster


READERS: Mapping[str, Callable[[Path], Any]] = {
    "pickle": _from_pickle,
    "lightgbm": _from_lightgbm,
    "xgboost": _from_xgboost,
}


def export(asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Do what the request says."""
    process.say("read the estimator")
    estimator = process.attempt(
        "file", "it can't be read", READERS[asked["kind"]], Path(asked["path"])
    )
    what = type(estimator).__name__
    if not any(hasattr(estimator, verb) for verb in ("predict", "transform")):
        raise SourceError(
            "file",
            f"it holds a {what}, which neither predicts nor transforms",
            "Save the fitted estimator or pipeline itself.",
        )
    process.say(f"convert the {what}")
    columns = process.attempt("estimator", "its columns aren't known", _columns, estimator)
    proto = process.attempt(
        "estimator", f"its {what} can't be converted", convert, estimator, columns
    )
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    process.say("compare with its framework")
    count, note = compare(estimator, columns, proto)
    said = f"{what}: the graph predicts what it does on {count} rows"
    return {"events": [("info", said), *([("info", note)] if note else [])]}


def _columns(estimator: Any) -> list[Column]:
    if hasattr(estimator, "num_feature"):  # LightGBM's own
        return [Column("input", "number", estimator.num_feature())]
    if hasattr(estimator, "num_features"):  # XGBoost's own
        return [Column("input", "number", estimator.num_features())]
    return columns_of(estimator)


def convert(estimator: Any, columns: Sequence[Column]) -> onnx.ModelProto:
    """Let the framework's converter write the graph; probabilities are tensors."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if not hasattr(estimator, "get_params"):
        return _convert_booster(estimator, columns)
    types = {"number": FloatTensorType, "text": StringTensorType}
    inputs = [(c.name, types[c.kind]([None, c.width])) for c in columns]
    _register()
    options: dict[int, dict[str, bool]] = {}
    for part in nested(estimator):
        if hasattr(part, "flatten_transform"):
            part.flatten_transform = False  # of `transform` alone; with it nothing is converted
        if getattr(part, "encode", None) == "onehot":
            part.encode = "onehot-dense"  # the same numbers
    if hasattr(estimator, "classes_"):
        options[id(estimator)] = {"zipmap": False}
    try:
        proto = to_onnx(estimator, initial_types=inputs, target_opset=OPSETS, options=options)
    except NameError:  # what skl2onnx raises for an option that a converter doesn't have
        proto = to_onnx(estimator, initial_types=inputs, target_opset=OPSETS)
    return _named(proto, "prediction" if hasattr(estimator, "predict") else "transformed")


def _convert_booster(booster: Any, columns: Sequence[Column]) -> onnx.ModelProto:
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    (column,) = columns
    inputs = [(column.name, FloatTensorType([None, column.width]))]
    kind = "lightgbm" if hasattr(booster, "num_feature") else "xgboost"
    write = getattr(onnxmltools, f"convert_{kind}")
    more = {"zipmap": False} if kind == "lightgbm" else {}
    return _named(write(booster, initial_types=inputs, target_opset=15, **more), "prediction")


def _named(proto: onnx.ModelProto, result: str) -> onnx.ModelProto:
    """Call the only output what it is, and the first axis of everything `batch`."""
    outputs = [end.name for end in proto.graph.output]
    given = outputs[0] if len(outputs) == 1 else None  # `variable`, say
    for node in proto.graph.node:
        for side in (node.input, node.output):
            side[:] = [result if name == given else name for name in side]
    for end in (*proto.graph.input, *proto.graph.output):
        end.name = result if end.name == given else end.name
        dims = end.type.tensor_type.shape.dim
        if dims and dims[0].dim_value in (0, 1):  # 1 is LightGBM's converter's mistake
            dims[0].dim_param = "batch"
    return proto


@cache
def _register() -> None:
    """Teach skl2onnx the estimators of LightGBM and XGBoost, and mend it where it is broken."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator, tree_ensemble

    add_node = tree_ensemble.add_node

    def with_plain_ids(pairs: Any, is_classifier: Any, *args: Any, **keywords: Any) -> None:
        # skl2onnx 1.20 hands on numpy's integers of histogram trees, and booleans: onnx refuses.
        def plain(value: Any) -> Any:
            return int(value) if isinstance(value, (bool, np.bool_, np.integer)) else value

        named = {key: plain(value) for key, value in keywords.items()}
        add_node(pairs, is_classifier, *map(plain, args), **named)

    tree_ensemble.add_node = with_plain_ids
    classifier = shape_calculator.calculate_linear_classifier_output_shapes
    regressor = shape_calculator.calculate_linear_regressor_output_shapes
    zipped = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    if importlib.util.find_spec("onnxmltools") is None:
        return
    if importlib.util.find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier, LGBMRegressor
        from onnxmltools.convert.lightgbm.operator_converters import LightGbm

        write = LightGbm.convert_lightgbm
        update_registered_converter(LGBMClassifier, "LGBMC", classifier, write, options=zipped)
        split = {"split": None}
        update_registered_converter(LGBMRegressor, "LGBMR", regressor, write, options=split)
    if importlib.util.find_spec("xgboost") is not None:
        from onnxmltools.convert.xgboost.operator_converters import XGBoost
        from xgboost import XGBClassifier, XGBRegressor

        write = XGBoost.convert_xgboost
        update_registered_converter(XGBClassifier, "XGBC", classifier, write, options=zipped)
        update_registered_converter(XGBRegressor, "XGBR", regressor, write)


def compare(estimator: Any, columns: Sequence[Column], proto: onnx.ModelProto) -> tuple[int, str]:
    """Hold the graph against the estimator on rows of every scale.

    Returns:
        How many rows were compared, and what wasn't, in a sentence.

    Raises:
        ImportMismatchError: A prediction differs.
    """
    session = Session(proto.SerializeToString())
    given = rows(columns, missing=takes_missing(estimator))
    expected = process.attempt("estimator", "it fails", _expected, estimator, columns, given)
    outputs = list(session.run(given).items())
    scores = outputs[-1][1] if len(outputs) > 1 else None
    compared = set()
    for at, want in expected.items():
        name, have = outputs[at]
        compared.add(name)
        fault = _fault(want, np.asarray(have), scores)
        if fault:
            raise ImportMismatchError(
                f"output '{name}'",
                f"{fault} of {len(have)} rows",
                "Convert it with skl2onnx yourself, and give the .onnx file.",
            )
    rest = ", ".join(f"'{name}'" for name, _ in outputs if name not in compared)
    note = f"{rest}: the framework has no counterpart to compare with" if rest else ""
    return len(next(iter(given.values()))), note


def _expected(
    estimator: Any, columns: Sequence[Column], given: Mapping[str, Array]
) -> dict[int, Array]:
    """What the framework says, by the place among the graph's outputs."""
    if hasattr(estimator, "num_features"):
        import xgboost

        return {-1: np.asarray(estimator.predict(xgboost.DMatrix(given["input"])))}
    if hasattr(estimator, "num_feature"):
        return {-1: np.asarray(estimator.predict(given["input"]))}
    # As users have them: numbers in double precision.
    wide = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in given.items()}
    table: Any = wide[columns[0].name]
    if hasattr(estimator, "feature_names_in_"):
        import pandas

        table = pandas.DataFrame({name: array.ravel() for name, array in wide.items()})
    made = []
    for verbs in (("predict",), ("predict_proba", "decision_function", "transform")):
        verb = next((verb for verb in verbs if hasattr(estimator, verb)), None)
        if verb is not None:
            made.append(np.asarray(getattr(estimator, verb)(table)))
    return dict(enumerate(made))


def _fault(want: Array, have: Array, scores: Array | None) -> str:
    """How many rows of an output differ, in words; nothing where all agree.

    A label may differ where two scores are as good as equal.
    """
    if have.dtype.kind != "f":
        want = want.astype(np.int64) if want.dtype.kind == "b" else want
        wrong = np.ravel(want).astype(str) != np.ravel(have).astype(str)
        if scores is not None and scores.ndim == 2 and scores.shape[1] > 1:
            best = np.sort(scores.astype(np.float64), axis=1)
            wrong &= best[:, -1] - best[:, -2] > CLOSE
        return f"the label is another one for {wrong.sum()}" if wrong.any() else ""
    if want.size != have.size and have.ndim == 2 and want.size == len(have):
        have = have[:, -1]  # two opposite scores, where the framework gives the second one
    if want.size != have.size:
        return f"it has the shape {have.shape}, and not {want.shape}, for all"
    left, right = np.ravel(want).astype(np.float64), np.ravel(have).astype(np.float64)
    scale = np.abs(left[np.isfinite(left)]).max(initial=1.0)
    same = np.isclose(left, right, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True)
    rows_ = ~same.reshape(len(have), -1).all(1)
    return f"the value is another one for {rows_.sum()}" if rows_.any() else ""


if __name__ == "__main__":
    process.answer(Path(sys.argv[1]), export)
