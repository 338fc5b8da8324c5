"""A pipeline with words and holes in its columns predicts in browsers what it does in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from builder import pipeline, plan
from builder.server import create_app, running
from builder.verify import Browser
from tests.browser import drive
from tests.sources.test_estimators import SEEN, TABLES, UNSEEN, table

# scikit-learn's own predictions are the reference; its warnings aren't ours.
pytestmark = pytest.mark.filterwarnings("ignore")

RUN = """
const [root, rows] = args;
const { load } = await import(`${root}onnxsite.js`);
const model = await load(`${root}models/passengers/`, { device: "wasm" });
try {
  const inputs = Object.fromEntries(Object.entries(rows).map(([name, values]) => [
    // JSON has no NaN
    name, { data: values.map((value) => value ?? NaN), dims: [values.length, 1] }]));
  const { outputs } = await model.run(inputs);
  return { label: [...outputs.label.words], odds: Array.from(outputs.probabilities.data) };
} finally {
  await model.dispose();
}
"""


@pytest.fixture(scope="module")
def passengers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """The address of a site of the pipeline, and the pipeline."""
    folder: Path = tmp_path_factory.mktemp("passengers")
    x, y = table()
    estimator = TABLES["one-hot"].fit(x[SEEN], y[SEEN])
    joblib.dump(estimator, folder / "passengers.joblib")
    flags = plan.Flags(dtypes=["fp32"], trust=True)
    pipeline.run(plan.make([str(folder / "passengers.joblib")], folder / "site", flags=flags))
    with running(create_app(folder / "site")) as url:
        yield url, estimator


@pytest.mark.parametrize("browser", ["chromium", "firefox", "webkitgtk"], indirect=True)
def test_words_go_in_and_come_out(browser: Browser, passengers: tuple[str, Any]) -> None:
    url, estimator = passengers
    x = table()[0][UNSEEN].copy()
    x.loc[x.index[:3], "port"] = "Belfast"  # not in the training data
    assert x["age"].isna().any()
    rows = {name: [None if v != v else v for v in x[name]] for name in x}
    browser.goto(f"{url}404.html")
    said = browser.evaluate(RUN, url, rows)
    assert said["label"] == estimator.predict(x).tolist()
    odds = np.reshape(said["odds"], (len(x), 2))
    np.testing.assert_allclose(odds, estimator.predict_proba(x), atol=1e-5)


def test_the_page_takes_words(chromium: Browser, passengers: tuple[str, Any]) -> None:
    url, estimator = passengers
    chromium.goto(f"{url}models/passengers/?device=wasm")
    drive.ready(chromium)
    given = {"age": "30", "fare": "12.5", "sex": "female", "port": "Queenstown"}
    fill = """
    for (const [name, value] of Object.entries(args[0])) {
      const source = document.querySelector(`[data-testid="source-${name}"]`);
      source.value = "numbers";
      source.dispatchEvent(new Event("change"));
      document.querySelector(`[data-testid="numbers-${name}"]`).value = value;
    }
    """
    chromium.evaluate(fill, given)
    drive.click(chromium, "run")
    label, _ = drive.result(chromium, "output", 2)
    x = table()[0][:1].assign(**{**given, "age": 30.0, "fare": 12.5})
    assert str(estimator.predict(x)[0]) in label.split()
