"""Pages that show one result of one model: on onnxruntime-web as tutorials have it, on
transformers.js, and on our runtime. All get the model's input ready made or make it the same way,
so that only loading and running differ.

transformers.js loads EfficientNet-Lite0 as an `AutoModel` and takes raw pixels: there is no
processor's configuration for it. MiniLM's tokens are computed beforehand, for all three.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import transformers_js
from bench.precision import minilm
from bench.precision.case import cached, runner
from builder import pipeline, plan
from builder.bundle.compress import compress_tree
from builder.bundle.huggingface import write_graph
from builder.fetch import fetch
from builder.recipe import ModelRecipe, Recipe

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

ORT = Path(__file__).resolve().parents[1] / "web" / "node_modules" / "onnxruntime-web" / "dist"
ORT_FILES = (
    "ort.bundle.min.mjs",
    "ort-wasm-simd-threaded.jsep.mjs",
    "ort-wasm-simd-threaded.jsep.wasm",
)
"""Of onnxruntime-web's default entry."""

SENTENCE = "The cat sleeps on the warm windowsill while it rains outside."
CATS = ("281", "282", "285")
"""Classes of ImageNet: tabby, tiger cat, Egyptian cat."""

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
{body}<p id="result"></p>
<script type="module">
{prepare}
{run}
{show}
document.getElementById("result").textContent = shown;
</script>
"""

PIXELS = """
const picture = document.getElementById("picture");
await picture.decode();
const context = new OffscreenCanvas(224, 224).getContext("2d");
const side = Math.min(picture.naturalWidth, picture.naturalHeight);
const left = (picture.naturalWidth - side) / 2, top = (picture.naturalHeight - side) / 2;
context.drawImage(picture, left, top, side, side, 0, 0, 224, 224);
const { data } = context.getImageData(0, 0, 224, 224);
const input = new Float32Array(3 * 224 * 224);
for (let i = 0; i < 224 * 224; i++)
  for (let c = 0; c < 3; c++) input[c * 224 * 224 + i] = (data[4 * i + c] - 127) / 128;
const inputs = { NAME: ["float32", input, [1, 3, 224, 224]] };
"""

STOCK = """
import * as ort from "../ort/ort.bundle.min.mjs";
const session = await ort.InferenceSession.create("../models/MODEL/onnx/model.onnx");
const feeds = {};
for (const [name, given] of Object.entries(inputs)) feeds[name] = new ort.Tensor(...given);
const output = Object.values(await session.run(feeds))[0].data;
"""

TRANSFORMERS = (
    transformers_js.importing("AutoModel", "Tensor", folder="../transformers/", models="../models/")
    + """
const model = await AutoModel.from_pretrained("MODEL", { device: "wasm", dtype: "q8" });
const feeds = {};
for (const [name, given] of Object.entries(inputs)) feeds[name] = new Tensor(...given);
const output = Object.values(await model(feeds))[0].data;
"""
)

OURS = """
import { load } from "../../onnxsite.js";
const model = await load("../../models/MODEL/", { device: "wasm" });
const feeds = {};
for (const [name, [, data, dims]] of Object.entries(inputs)) feeds[name] = { data, dims };
const output = Object.values((await model.run(feeds)).outputs)[0].data;
"""

HOSTS = ("plain", "brotli")

CONTESTANTS = {
    "onnxruntime-web, fp32, plain host": ("plain", "stock", STOCK),
    "onnxruntime-web, fp32, brotli": ("brotli", "stock", STOCK),
    "transformers.js, q8, brotli": ("brotli", "transformers", TRANSFORMERS),
    "onnxsite, int8, brotli": ("brotli", "ours", OURS),
}
"""Host, ending of the page's name, and what it runs."""

MEAN = """
const width = output.length / inputs.input_ids[1].length;
const means = new Float64Array(width);
output.forEach((value, index) => (means[index % width] += value));
const shown = JSON.stringify([...means]);
"""
"""Direction alone counts: not divided by the number of tokens."""


@dataclass(frozen=True)
class Model:
    """A model that all load.

    Attributes:
        name: For the table.
        source: For the builder.
        config: What transformers.js needs to know of it.
        page: Whether our contestant is the model's own page, pictures, labels and all.
        prepare: JavaScript that makes `inputs`: type, data and dims by name.
        body: HTML before the result.
        show: JavaScript that makes `shown` of `output`.
        right: Whether what a page shows is right.
    """

    name: str
    source: str
    config: dict[str, Any]
    page: bool
    prepare: str
    body: str
    show: str
    right: Callable[[str], bool]


def _efficientnet() -> Model:
    return Model(
        name="EfficientNet-Lite0",
        source="zoo:efficientnet-lite0",
        config={"model_type": "efficientnet"},
        page=True,
        prepare=PIXELS,
        body='<img id="picture" src="../picture.png">',
        show="const shown = output.indexOf(Math.max(...output));",
        right=lambda shown: shown in CATS or "cat" in shown.lower(),
    )


def _minilm() -> Model:
    path = cached(minilm.MODEL, minilm.export)
    (tokens,) = minilm.encode([SENTENCE])
    inputs = {name: array.ravel().tolist() for name, array in tokens.items()}
    expected = minilm.embed(runner(path), [tokens])[0]

    def right(shown: str) -> bool:
        means = np.array(json.loads(shown))
        return float(means @ expected / np.linalg.norm(means)) > 0.99

    return Model(
        name="MiniLM",
        source=str(path),
        config=json.loads(fetch(minilm.CONFIG).read_text()),
        page=False,
        prepare=f"const inputs = {{}};\nfor (const [name, ids] of Object.entries("
        f"{json.dumps(inputs)}))\n"
        '  inputs[name] = ["int64", BigInt64Array.from(ids, BigInt), [1, ids.length]];',
        body="",
        show=MEAN,
        right=right,
    )


MODELS: dict[str, Callable[[], Model]] = {"efficientnet-lite0": _efficientnet, "minilm": _minilm}
"""By their ids in the site."""


def write(folder: Path, made: dict[str, Model]) -> dict[tuple[str, str], str]:
    """Build the site and write every page into it; addresses by model and contestant."""
    recipe = Recipe(models=[ModelRecipe(id=id_, source=m.source) for id_, m in made.items()])
    flags = plan.Flags(dtypes=["fp32", "int8"])
    site = pipeline.run(plan.make([], folder, recipe=recipe, flags=flags))
    for name in HOSTS:
        for file in ORT_FILES:
            (folder / name / "ort").mkdir(parents=True, exist_ok=True)
            shutil.copy(ORT / file, folder / name / "ort")
    transformers_js.place(folder / "brotli" / "transformers")
    pages: dict[tuple[str, str], str] = {}
    for manifest in site.manifests:
        _place_model(folder, manifest, made[manifest["id"]])
        pages |= _write_pages(folder, manifest, made[manifest["id"]])
    compress_tree(folder / "brotli")
    return pages


def _place_model(folder: Path, manifest: types.Manifest, model: Model) -> None:
    """In the layout of the hub on both hosts: the same weights for all contestants."""
    (stage,) = [stage for stage in manifest["stages"] if stage["kind"] == "model"]
    variants = {variant["name"]: variant for variant in stage["variants"]}
    for host in HOSTS:
        target = folder / host / "models" / manifest["id"]
        (target / "onnx").mkdir(parents=True)
        (target / "config.json").write_text(json.dumps(model.config))
        write_graph(variants["fp32"], folder, target / "onnx" / "model.onnx")
        write_graph(variants["int8"], folder, target / "onnx" / "model_quantized.onnx")
        for sample in manifest["samples"]:
            if sample["title"] == "Cat":
                shutil.copy(folder / sample["file"]["path"], folder / host / "picture.png")


def _write_pages(
    folder: Path, manifest: types.Manifest, model: Model
) -> dict[tuple[str, str], str]:
    pages = {}
    id_, name = manifest["id"], manifest["signature"]["inputs"][0]["name"]
    for contestant, (host, kind, run) in CONTESTANTS.items():
        page = folder / host / f"{id_}-{kind}"
        pages[id_, contestant] = f"{host}/{page.name}/"
        if run is OURS and model.page:
            pages[id_, contestant] = f"models/{id_}/?device=wasm"
            continue
        page.mkdir()
        content = PAGE.format(
            title=contestant,
            body=model.body,
            prepare=model.prepare.replace("NAME", name),
            run=run.replace("MODEL", id_),
            show=model.show,
        )
        (page / "index.html").write_text(content)
    return pages
