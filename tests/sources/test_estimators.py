"""Estimators predict after their import what they predicted before, on data that they never saw."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn import (
    cluster,
    compose,
    datasets,
    decomposition,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.pipeline import make_pipeline

from builder import sources
from builder.errors import NotAModelError, OnnxsiteError, UsageError
from builder.model import Model, Provenance, places
from builder.recipe import ModelRecipe
from builder.session import Session
from builder.sources import estimator_columns, estimator_export, onnx_file

# Frameworks announce what will change, and that too few rounds were trained.
pytestmark = pytest.mark.filterwarnings("ignore")

IRIS = datasets.load_iris()
DIABETES = datasets.load_diabetes()
NAMES = IRIS.target_names[IRIS.target]
SEEN, UNSEEN = slice(0, None, 2), slice(1, None, 2)


def table() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Passengers: two numbers with holes, two categories, and who of them is saved."""
    rng = np.random.default_rng(1)
    count = 200
    age = rng.uniform(1, 80, count)
    sex = rng.choice(["female", "male"], count)
    port = rng.choice(["Cherbourg", "Queenstown", "Southampton"], count, p=[0.3, 0.1, 0.6])
    fare = rng.gamma(2, 15, count) + 20 * (port == "Cherbourg")
    odds = 2 * (sex == "female") - 0.03 * age + 0.02 * fare + rng.normal(0, 0.7, count)
    age[rng.random(count) < 0.15] = np.nan
    columns = {"age": age, "fare": fare, "sex": sex, "port": port}
    return pd.DataFrame(columns), np.where(odds > np.median(odds), "saved", "lost")


def columns(encoder: Any, numbers: Any) -> Any:
    """A ColumnTransformer of the table."""
    parts = [("numbers", numbers, ["age", "fare"]), ("words", encoder, ["sex", "port"])]
    return compose.ColumnTransformer(parts)


ONE_HOT = preprocessing.OneHotEncoder(handle_unknown="ignore")
ORDINAL = preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
FILLED = make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())

CLASSIFIERS: Mapping[str, Any] = {
    "logistic regression": linear_model.LogisticRegression(),
    "scaled": make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    "ridge": linear_model.RidgeClassifier(),
    "stochastic gradient": linear_model.SGDClassifier(random_state=0),
    "decision tree": tree.DecisionTreeClassifier(random_state=0),
    "random forest": ensemble.RandomForestClassifier(20, random_state=0),
    "extra trees": ensemble.ExtraTreesClassifier(20, random_state=0),
    "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=10),
    "histogram boosting": ensemble.HistGradientBoostingClassifier(max_iter=10),
    "AdaBoost": ensemble.AdaBoostClassifier(n_estimators=5),
    "bagging": ensemble.BaggingClassifier(n_estimators=4, random_state=0),
    "voting": ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], voting="soft"
    ),
    "stacking": ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())]
    ),
    "support vectors": svm.SVC(),
    "linear support vectors": svm.LinearSVC(),
    "nearest neighbours": neighbors.KNeighborsClassifier(),
    "naive Bayes": naive_bayes.GaussianNB(),
    "perceptron of two layers": neural_network.MLPClassifier(max_iter=50, random_state=0),
    "LightGBM": lightgbm.LGBMClassifier(n_estimators=10, verbose=-1),
}

REGRESSORS: Mapping[str, Any] = {
    "linear regression": linear_model.LinearRegression(),
    "lasso": linear_model.Lasso(0.1),
    "random forest": ensemble.RandomForestRegressor(10, random_state=0),
    "histogram boosting": ensemble.HistGradientBoostingRegressor(max_iter=10),
    "support vectors": svm.SVR(),
    "nearest neighbours": neighbors.KNeighborsRegressor(),
    "Gaussian process": gaussian_process.GaussianProcessRegressor(alpha=1.0),
    "polynomials": make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
    "components": make_pipeline(decomposition.PCA(3), linear_model.Ridge()),
    "selected": make_pipeline(feature_selection.SelectKBest(k=3), linear_model.Ridge()),
    "bins": make_pipeline(preprocessing.KBinsDiscretizer(3), linear_model.Ridge()),
    "quantiles": make_pipeline(
        preprocessing.QuantileTransformer(n_quantiles=20), linear_model.Ridge()
    ),
    "powers": make_pipeline(preprocessing.PowerTransformer(), linear_model.Ridge()),
    "LightGBM": lightgbm.LGBMRegressor(n_estimators=10, verbose=-1),
    "XGBoost": xgboost.XGBRegressor(n_estimators=10),
}

TABLES: Mapping[str, Any] = {
    "one-hot": make_pipeline(columns(ONE_HOT, FILLED), linear_model.LogisticRegression()),
    "ordinal, boosted": make_pipeline(
        columns(ORDINAL, impute.SimpleImputer(strategy="median")),
        ensemble.GradientBoostingClassifier(n_estimators=10),
    ),
    "ordinal, holes stay": make_pipeline(
        columns(ORDINAL, "passthrough"), ensemble.HistGradientBoostingClassifier(max_iter=10)
    ),
}


def imported(estimator: Any) -> Model:
    """Convert, prove and lower, in this process: see `test_a_file` for the whole way."""
    given = estimator_columns.columns_of(estimator)
    proto = estimator_export.convert(estimator, given)
    estimator_export.compare(estimator, given, proto)
    return onnx_file.from_proto(proto, Provenance("test"), shapes={})


def predicted(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the imported graph says, words for places where an output has a vocabulary."""
    given = {}
    for spec in model.signature.inputs:
        array = np.asarray(feeds[spec.name])
        words = spec.vocabulary is not None
        given[spec.name] = places(array, spec.vocabulary or ()) if words else array.astype("f4")
    said: dict[str, Any] = dict(Session(model.ir).run(given))
    for spec in model.signature.outputs:
        if spec.vocabulary is not None:
            said[spec.name] = np.array(spec.vocabulary, object)[said[spec.name]]
    return said


@pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifiers(estimator: Any) -> None:
    estimator.fit(IRIS.data[SEEN], NAMES[SEEN])
    model = imported(estimator)
    said = predicted(model, {"input": IRIS.data[UNSEEN]})
    label, scores = said.values()
    np.testing.assert_array_equal(label, estimator.predict(IRIS.data[UNSEEN]))
    if hasattr(estimator, "predict_proba"):
        expected = estimator.predict_proba(IRIS.data[UNSEEN])
        np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert set(NAMES) == set(model.signature.outputs[0].vocabulary or ())


def test_labels_that_are_numbers() -> None:
    """XGBoost wants them from 0; scikit-learn takes any, and keeps them."""
    booster = xgboost.XGBClassifier(n_estimators=10).fit(IRIS.data[SEEN], IRIS.target[SEEN])
    said = predicted(imported(booster), {"input": IRIS.data[UNSEEN]})
    np.testing.assert_array_equal(said["label"], booster.predict(IRIS.data[UNSEEN]))
    numbers = np.where(IRIS.target == 1, -7, 30)
    forest = ensemble.RandomForestClassifier(9, random_state=0).fit(IRIS.data[SEEN], numbers[SEEN])
    said = predicted(imported(forest), {"input": IRIS.data[UNSEEN]})
    np.testing.assert_array_equal(said["label"], forest.predict(IRIS.data[UNSEEN]))
    assert set(said["label"].tolist()) == {-7, 30}


@pytest.mark.parametrize("estimator", REGRESSORS.values(), ids=REGRESSORS)
def test_regressors(estimator: Any) -> None:
    estimator.fit(DIABETES.data[SEEN], DIABETES.target[SEEN])
    said = predicted(imported(estimator), {"input": DIABETES.data[UNSEEN]})
    expected = estimator.predict(DIABETES.data[UNSEEN])
    np.testing.assert_allclose(said["prediction"].ravel(), expected, rtol=1e-4)


def test_clusters_components_and_outliers() -> None:
    x = IRIS.data[UNSEEN]
    means = cluster.KMeans(3, random_state=0).fit(IRIS.data[SEEN])
    said = predicted(imported(means), {"input": x})
    np.testing.assert_array_equal(said["label"], means.predict(x))
    np.testing.assert_allclose(said["scores"], means.transform(x), atol=1e-4)
    axes = decomposition.PCA(2).fit(IRIS.data[SEEN])
    said = predicted(imported(axes), {"input": x})
    np.testing.assert_allclose(said["transformed"], axes.transform(x), atol=1e-5)
    forest = ensemble.IsolationForest(n_estimators=20, random_state=0).fit(IRIS.data[SEEN])
    said = predicted(imported(forest), {"input": x})
    np.testing.assert_array_equal(said["label"].ravel(), forest.predict(x))


@pytest.mark.parametrize("estimator", TABLES.values(), ids=TABLES)
def test_mixed_columns(estimator: Any) -> None:
    x, y = table()
    estimator.fit(x[SEEN], y[SEEN])
    model = imported(estimator)
    kinds = {spec.name: (spec.dtype, spec.shape) for spec in model.signature.inputs}
    assert kinds == {
        "age": ("float32", ("batch", 1)),
        "fare": ("float32", ("batch", 1)),
        "sex": ("int64", ("batch", 1)),
        "port": ("int64", ("batch", 1)),
    }
    unseen = x[UNSEEN].copy()
    unseen.loc[unseen.index[:3], "port"] = "Belfast"  # not in the training data
    said = predicted(model, {name: unseen[[name]].to_numpy() for name in x})
    np.testing.assert_array_equal(said["label"], estimator.predict(unseen))
    np.testing.assert_allclose(said["probabilities"], estimator.predict_proba(unseen), atol=1e-4)


FILES: Mapping[str, Callable[[Any, Path], object]] = {
    "model.joblib": joblib.dump,
    "model.pkl": lambda estimator, path: path.write_bytes(pickle.dumps(estimator)),
}


def load(path: Path, work: Path, *, trust: bool = True) -> Model:
    work.mkdir()
    return sources.load(
        ModelRecipe(source=path.name, trust=trust), base=path.parent, files={}, work=work
    )


@pytest.mark.parametrize("name", FILES)
def test_a_file(tmp_path: Path, name: str) -> None:
    x, y = table()
    pipeline = TABLES["one-hot"].fit(x[SEEN], y[SEEN])
    FILES[name](pipeline, tmp_path / name)
    model = load(tmp_path / name, tmp_path / "work")
    said = predicted(model, {column: x[[column]].to_numpy() for column in x})
    np.testing.assert_array_equal(said["label"], pipeline.predict(x))
    assert any("predicts what it does on 192 rows" in event.message for event in model.events)


BOOSTERS: Mapping[str, Callable[[Path], Any]] = {
    "LightGBM, .txt": lambda folder: _light(folder / "model.txt"),
    "XGBoost, .json": lambda folder: _extreme(folder / "model.json"),
    "XGBoost, .ubj": lambda folder: _extreme(folder / "model.ubj"),
}


def _light(path: Path) -> Any:
    made = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1)
    made.fit(IRIS.data[SEEN], IRIS.target[SEEN]).booster_.save_model(path)
    return made


def _extreme(path: Path) -> Any:
    made = xgboost.XGBClassifier(n_estimators=5).fit(IRIS.data[SEEN], IRIS.target[SEEN])
    made.save_model(path)
    return made


@pytest.mark.parametrize("save", BOOSTERS.values(), ids=BOOSTERS)
def test_files_of_boosters(tmp_path: Path, save: Callable[[Path], Any]) -> None:
    """They hold no code, so nobody need trust them."""
    origin = save(tmp_path)
    (path,) = tmp_path.iterdir()
    model = load(path, tmp_path / "work", trust=False)
    said = predicted(model, {"input": IRIS.data[UNSEEN]})
    expected = origin.predict_proba(IRIS.data[UNSEEN])
    np.testing.assert_allclose(said["probabilities"], expected, atol=1e-5)


class Hostile:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_a_pickle_that_nobody_trusts_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Hostile(trap)))
    with pytest.raises(UsageError, match=r"runs whatever code is in it.*--trust"):
        load(tmp_path / "model.pkl", tmp_path / "work", trust=False)
    assert not trap.exists()


def _text() -> Any:
    words = feature_extraction.text.TfidfVectorizer()
    return make_pipeline(words, linear_model.LogisticRegression()).fit(["good", "bad"], [1, 0])


REFUSED: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "not a pickle": (lambda: b"no pickle", "it can't be read"),
    "a list": (lambda: pickle.dumps([1, 2]), "it holds a list, which neither predicts"),
    "not fitted": (lambda: pickle.dumps(svm.SVC()), "was it fitted"),
    "text": (lambda: pickle.dumps(_text()), "it splits text into words"),
    "probabilities of support vectors": (
        lambda: pickle.dumps(svm.SVC(probability=True).fit(IRIS.data, IRIS.target)),
        "its probabilities are found by iteration",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(tmp_path: Path, content: Callable[[], bytes], message: str) -> None:
    (tmp_path / "model.pkl").write_bytes(content())
    with pytest.raises(OnnxsiteError, match=message):
        load(tmp_path / "model.pkl", tmp_path / "work")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotAModelError, match="no such file"):
        load(tmp_path / "none.joblib", tmp_path / "work")
