"""The folder that `--layout hf` writes, and what it refuses to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from builder import pipeline, plan
from builder.bundle.huggingface import write_graph
from builder.errors import UsageError
from builder.recipe import Licence, ModelRecipe, Pinned, Recipe, VariantName

CONFIG = {"model_type": "convnet", "transformers.js_config": {"use_external_data_format": True}}


def build(
    source: Path, out: Path, dtypes: list[VariantName], recipe: Recipe | None = None
) -> dict[str, bytes]:
    """Build into `out`; gives its files by path."""
    flags = plan.Flags(dtypes=dtypes, layout="hf")
    sources = [] if recipe else [str(source)]
    pipeline.run(plan.make(sources, out, recipe=recipe, recipe_base=source.parent, flags=flags))
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def outputs(model: Path | bytes) -> Any:
    """What onnxruntime makes of a fixed input."""
    x = np.random.default_rng(3).normal(0, 1, (2, 3, 16, 16)).astype(np.float32)
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def test_each_variant_is_one_file_under_its_name_there(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    files = build(model_file, tmp_path / "out", ["fp32", "int8", "fp16"])
    names = ["model.onnx", "model_fp16.onnx", "model_quantized.onnx"]
    assert [name for name in files if name.endswith(".onnx")] == [f"onnx/{n}" for n in names]
    expected = outputs(model_file)
    for name in names:
        got = outputs(files[f"onnx/{name}"])
        assert np.linalg.norm(got - expected) < 0.05 * np.linalg.norm(expected), name
    assert len(files["onnx/model_quantized.onnx"]) < 0.6 * len(files["onnx/model.onnx"])
    # There are no data beside the graphs, whatever was beside the source's.
    assert json.loads(files["config.json"]) == {"model_type": "convnet"}
    assert "there is neither tokenizer.json" in files["README.md"].decode()
    assert files == build(model_file, tmp_path / "again", ["fp32", "int8", "fp16"])


def test_a_page_that_does_not_choose_gets_what_is_there(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "convnet"}')
    files = build(model_file, tmp_path / "out", ["fp32"])
    assert json.loads(files["config.json"])["transformers.js_config"] == {"dtype": "fp32"}
    files = build(model_file, tmp_path / "both", ["fp32", "int8"])
    assert files["config.json"] == b'{"model_type": "convnet"}'


def test_a_recipe_may_name_the_files(model_file: Path, tmp_path: Path) -> None:
    for folder in ("recipe", "elsewhere"):
        (tmp_path / folder).mkdir()
    source = model_file.rename(tmp_path / "recipe" / "net.onnx")
    config = tmp_path / "elsewhere" / "config.json"
    config.write_text('{"model_type": "bert"}')
    tokenizer = config.with_name("tokenizer.json")
    tokenizer.write_text("{}")
    model = ModelRecipe(
        source="net.onnx",
        title="A net",
        licence=Licence(name="MIT", url="https://example.org/licence"),
        files={path.stem: Pinned(ref=str(path)) for path in (config, tokenizer)},
    )
    files = build(source, tmp_path / "out", ["fp32"], Recipe(models=[model]))
    assert files["tokenizer.json"] == b"{}"
    card = files["README.md"].decode()
    assert "\nlicense: mit\n" in card
    assert "\n# A net\n" in card
    size = f"{len(files['onnx/model.onnx']):,}"
    assert f'| `onnx/model.onnx` | `"fp32"` | {size} | snr |' in card
    assert "there is no tokenizer_config.json" in card


@pytest.mark.parametrize(
    ("config", "flags", "said"),
    [
        (None, plan.Flags(), "without config.json"),
        ("<!doctype html>", plan.Flags(), "isn't JSON"),
        ('{"architectures": []}', plan.Flags(), "no model_type"),
        ('{"model_type": "t5", "is_encoder_decoder": true}', plan.Flags(), "two graphs"),
        ('{"model_type": "bert"}', plan.Flags(dtypes=["q8"]), "Ask for int8"),
        ('{"model_type": "bert"}', plan.Flags(host="netlify"), "isn't made for hosts"),
    ],
)
def test_what_cannot_be_loaded_is_refused_at_once(
    model_file: Path, tmp_path: Path, config: str | None, flags: plan.Flags, said: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    asked = plan.Flags(dtypes=flags.dtypes, host=flags.host, layout="hf")
    with pytest.raises(UsageError, match=said):
        pipeline.run(plan.make([str(model_file)], tmp_path / "out", flags=asked))
    assert not (tmp_path / "out").exists()


def test_one_folder_holds_one_model(tmp_path: Path) -> None:
    made = plan.make(["a.onnx", "b.onnx"], tmp_path / "out", flags=plan.Flags(layout="hf"))
    with pytest.raises(UsageError, match="one model, not a, b"):
        pipeline.run(made)


def test_weights_above_the_limit_lie_beside_the_graph(model_file: Path, tmp_path: Path) -> None:
    flags = plan.Flags(dtypes=["fp32"])
    pipeline.run(plan.make([str(model_file)], tmp_path / "site", flags=flags))
    manifest = json.loads((tmp_path / "site" / "models" / "net" / "manifest.json").read_text())
    (variant,) = manifest["stages"][0]["variants"]
    target = tmp_path / "model.onnx"
    files = write_graph(variant, tmp_path / "site", target, limit=50_000)
    names = [path.name for path in files]
    # The names that transformers.js counts up: 92 kB of 480 times 48 weights are alone in one.
    assert names == ["model.onnx", *(f"model.onnx_data{end}" for end in ("", "_1", "_2"))]
    assert len(onnx.load(target, load_external_data=False).SerializeToString()) < 5000
    np.testing.assert_array_equal(
        outputs(target), outputs(write_graph(variant, tmp_path / "site", tmp_path / "one.onnx")[0])
    )
