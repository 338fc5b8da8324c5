"""transformers.js loads a folder of `--layout hf` as it is, and gives the model's embeddings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from flask import Flask

from bench import transformers_js
from bench.precision import minilm
from bench.precision.case import cached, runner
from builder.fetch import fetch
from builder.server import running
from builder.verify import Browser
from tests.browser.site import ROOT

SENTENCES = (
    "The cat sleeps on the warm windowsill.",
    "A kitten naps in the sun.",
    "Interest rates rose by half a point, the central bank said on Thursday.",
)

EMBED = (
    """
const [dtype, sentences] = args;
"""
    + transformers_js.importing("pipeline", folder="/transformers/", models="/models/")
    + """
env.useBrowserCache = false; // each test sees its own downloads
const options = { device: "wasm", ...(dtype ? { dtype } : {}) };
const extract = await pipeline("feature-extraction", "minilm", options);
const embeddings = await extract(sentences, { pooling: "mean", normalize: true });
await extract.dispose();
return embeddings.tolist();
"""
)


@dataclass(frozen=True)
class Host:
    """The address of a page, the folder that was built, and the model that it was built from."""

    url: str
    folder: Path
    model: Path


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with transformers.js and the folder of a model, built as the command line does it."""
    folder = tmp_path_factory.mktemp("host")
    # As on the hub: the graph in a folder below its companions.
    source = tmp_path_factory.mktemp("source")
    for pinned in (minilm.CONFIG, minilm.TOKENIZER, minilm.TOKENIZER_CONFIG):
        shutil.copy(fetch(pinned), source)
    (source / "onnx").mkdir()
    model = source / "onnx" / "model.onnx"
    shutil.copy(cached(minilm.MODEL, minilm.export), model)
    asked = ["--layout", "hf", "--dtype", "fp32,int8,q4", "-o", str(folder / "models" / "minilm")]
    done = subprocess.run(
        [sys.executable, "-m", "builder", "build", str(model), *asked],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    transformers_js.place(folder / "transformers")
    (folder / "index.html").write_text("<!doctype html><title>Somebody's own</title>")
    with running(Flask("host", static_folder=folder, static_url_path="/")) as url:
        yield Host(url, folder / "models" / "minilm", model)


@pytest.mark.parametrize(
    ("dtype", "file", "least"),
    [
        ("fp32", "model.onnx", 0.9999),
        # Noise of the 15 and 10 dB that the gate allows turns a vector no further than this.
        ("q8", "model_quantized.onnx", 0.984),
        (None, "model_quantized.onnx", 0.984),  # what transformers.js takes by itself on the CPU
        ("q4", "model_q4.onnx", 0.953),
    ],
)
def test_embeddings_are_those_of_the_model(
    host: Host, chromium: Browser, dtype: str | None, file: str, least: float
) -> None:
    chromium.goto(f"{host.url}index.html")
    before = len(chromium.requests)
    got = np.array(chromium.evaluate(EMBED, dtype, list(SENTENCES)))
    asked = [address for address in chromium.requests[before:] if address.startswith("http")]
    tokens = minilm.encode(SENTENCES)
    expected = minilm.embed(runner(host.model), tokens)
    assert got.shape == expected.shape
    assert np.sum(got * expected, axis=1).min() > least
    same = minilm.embed(runner(host.folder / "onnx" / file), tokens)
    assert np.sum(got * same, axis=1).min() > 0.9999
    graphs = {address for address in asked if address.endswith(".onnx")}
    assert graphs == {f"{host.url}models/minilm/onnx/{file}"}
    assert all(address.startswith(host.url) for address in asked)
