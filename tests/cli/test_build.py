"""`python -m builder build` as a user runs it: real processes, real files."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import onnx
import pytest

from builder.cache import cache_dir
from tests.node_cases import protos

ROOT = Path(__file__).resolve().parents[2]
NODE_TESTS = (
    "test_conv_with_strides_padding",
    "test_layer_normalization_4d_axis1",
    "test_lstm_defaults",
)


def run(
    *arguments: str | Path, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "builder", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def manifest(site: Path, model: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((site / "models" / model / "manifest.json").read_text())
    return content


def dtypes(site: Path, model: str) -> list[str]:
    (stage,) = [s for s in manifest(site, model)["stages"] if s["kind"] == "model"]
    return [variant["dtype"] for variant in stage["variants"]]


def different(left: Path, right: Path) -> list[str]:
    """Names that two folders don't share byte for byte."""
    comparison = filecmp.dircmp(left, right, ignore=[], hide=[])
    _, unequal, odd = filecmp.cmpfiles(left, right, comparison.common_files, shallow=False)
    names = [*comparison.left_only, *comparison.right_only, *unequal, *odd]
    for folder in comparison.common_dirs:
        names += [f"{folder}/{name}" for name in different(left / folder, right / folder)]
    return names


def test_a_model_becomes_a_site_with_three_variants(model_file: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    result = run("build", model_file, "-o", site, "--dtype", "fp32,fp16,int8")
    assert result.returncode == 0, result.stderr
    assert dtypes(site, "net") == ["fp32", "fp16", "fp16", "int8", "int8"]
    for dtype in ("fp32", "fp16", "int8"):
        assert any(f" {dtype} " in line and "pass" in line for line in result.stdout.splitlines())
    assert result.stderr == "", "silent when it isn't a terminal"
    assert (site / "models" / "net" / "index.html").is_file()
    assert str(tmp_path) not in (site / "models" / "net" / "recipe.toml").read_text()


def test_what_another_variant_beats_is_left_out(model_file: Path, tmp_path: Path) -> None:
    result = run("build", model_file, "-o", tmp_path / "site", "--json")
    assert result.returncode == 0, result.stderr
    (model,) = json.loads(result.stdout)["models"]
    shipped = {variant["dtype"]: variant for variant in model["variants"]}
    reasons = {entry["dtype"]: entry["reason"] for entry in model["dropped"]}
    assert "fp32" in shipped
    # All weights of this net are small, so int8 stores them in fp16 too, and corrects the biases.
    assert reasons["fp16"].startswith("int8 is better: ")
    assert set(shipped) | set(reasons) == {"fp32", "fp16", "int8", "q4", "q4f16"}


def test_static_and_dynamic_8_bits_are_made_where_asked_for(
    model_file: Path, tmp_path: Path
) -> None:
    site, asked = tmp_path / "site", ("--dtype", "fp32,q8,uint8", "--calibration-method", "entropy")
    result = run("build", model_file, "-o", site, "--json", *asked)
    assert result.returncode == 0, result.stderr
    (model,) = json.loads(result.stdout)["models"]
    made = {variant["dtype"]: variant["devices"] for variant in model["variants"]}
    reasons = {entry["dtype"]: entry["reason"] for entry in model["dropped"]}
    assert set(made) | set(reasons) == {"fp32", "q8", "uint8"}
    assert made["q8"] == ["wasm"]
    # Its products are too small to be worth it.
    assert "no product that is large enough" in reasons["uint8"]
    recipe = (site / "models" / "net" / "recipe.toml").read_text()
    assert 'calibration_method = "entropy"' in recipe


def test_json_is_all_there_is_on_standard_output(model_file: Path, tmp_path: Path) -> None:
    result = run("build", model_file, "-o", tmp_path / "site", "--json", "--dtype", "fp32,fp16")
    report = json.loads(result.stdout)
    (model,) = report["models"]
    assert [variant["name"] for variant in model["variants"]] == ["fp32", "fp16", "fp16-half"]
    fp32, *fp16 = model["variants"]
    assert all(form["size"] < 0.6 * fp32["size"] for form in fp16)
    assert all(variant["verdict"]["passed"] for variant in model["variants"])


def test_two_builds_are_the_same_bytes(model_file: Path, tmp_path: Path) -> None:
    sites = []
    for name in ("one", "two"):
        # A cache of its own: the second build must not be a copy of the first.
        # Only the runtime's compressed files are, which take two minutes.
        cache = tmp_path / f"cache-{name}"
        if (cache_dir() / "compressed").is_dir():
            shutil.copytree(cache_dir() / "compressed", cache / "compressed")
        result = run("build", model_file, "-o", tmp_path / name, ONNXSITE_CACHE=str(cache))
        assert result.returncode == 0, result.stderr
        sites.append(tmp_path / name)
    assert different(*sites) == []


@pytest.mark.parametrize("name", NODE_TESTS)
def test_graphs_of_onnx_build(name: str, tmp_path: Path) -> None:
    model, *_ = protos()[name]
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    result = run("build", path, "-o", tmp_path / "site")
    assert result.returncode == 0, result.stderr
    assert "fp32" in dtypes(tmp_path / "site", name)


def test_a_model_with_external_data_builds_the_same(model_file: Path, tmp_path: Path) -> None:
    model = onnx.load(model_file)
    (tmp_path / "apart").mkdir()
    apart = tmp_path / "apart" / "net.onnx"
    onnx.save(model, apart, save_as_external_data=True, location="net.bin", size_threshold=64)
    for path, site in ((model_file, "inside"), (apart, "outside")):
        assert run("build", path, "-o", tmp_path / site, "--dtype", "fp32").returncode == 0
    graphs = [
        manifest(tmp_path / site, "net")["stages"][0]["variants"][0]
        for site in ("inside", "outside")
    ]
    assert graphs[0]["graph"] == graphs[1]["graph"]
    assert graphs[0]["weights"] == graphs[1]["weights"]


def test_a_pytorch_factory_builds(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "def mlp():\n"
        "    torch.manual_seed(0)\n"
        "    layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4)\n"
        "    return torch.nn.Sequential(*layers), {'features': torch.zeros(1, 64)}\n"
    )
    result = run("build", "nets:mlp", "-o", "site", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    entry = manifest(tmp_path / "site", json.loads(result.stdout)["models"][0]["id"])
    assert entry["signature"]["inputs"][0]["name"] == "features"
    assert entry["signature"]["inputs"][0]["shape"][1:] == [64]
    assert isinstance(entry["signature"]["inputs"][0]["shape"][0], str), "batch is dynamic"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["build"], 2, "nothing to build"),
        (["build", "none.onnx", "-o", "site"], 1, "none.onnx"),
        (["build", "zoo:efficientnet", "-o", "site"], 2, "efficientnet-lite0"),
        (["build", "net.onnx", "--dtype", "fp8"], 2, "fp8"),
        (["build", "net.onnx", "--prune", "1"], 2, "0<x<1"),
        (["build", "net.onnx", "--cluster", "257"], 2, "2<=x<=256"),
        (["build", "net.onnx", "--task", "chess"], 2, "chess"),
        (["build", "net.onnx", "net.onnx", "-o", "site"], 2, "two models"),
        (["build", "--recipe", "none.toml"], 2, "none.toml"),
        (["build", "net.onnx", "-o", "."], 1, "wasn't built here"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    model_file: Path, arguments: list[str], code: int, said: str
) -> None:
    result = run(*arguments, cwd=model_file.parent)
    assert result.returncode == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in model_file.parent.iterdir()) == ["net.onnx"]


def test_an_error_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "page.onnx").write_text("<!doctype html><title>404</title>")
    result = run("build", "page.onnx", "-o", "site", "--json", cwd=tmp_path)
    assert result.returncode == 1
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "NotAModelError"
    assert "page.onnx" in error["what"]


def test_ctrl_c_leaves_the_earlier_output(model_file: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert run("build", model_file, "-o", site, "--title", "first").returncode == 0
    before = (site / "index.html").read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "builder", "build", str(model_file), "-o", str(site), "-v"],
        cwd=ROOT,
        # An empty cache makes it compress the runtime again, which takes long enough to be hit.
        env={**os.environ, "ONNXSITE_CACHE": str(tmp_path / "empty-cache")},
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(tmp_path.glob(".site.*.new")):
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted" in said
    assert "Traceback" not in said
    assert (site / "index.html").read_bytes() == before
    assert not list(tmp_path.glob(".site.*"))


def test_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    result = run("build", "zoo:magika", "-o", tmp_path / "site", "--dry-run")
    assert result.returncode == 0
    assert "pypi:magika==" in result.stdout
    assert "convert to every type" in result.stdout
    assert not (tmp_path / "site").exists()


def test_help_is_grouped_and_has_examples() -> None:
    said = run("build", "--help").stdout
    for text in ("What to build", "Where it goes", "Examples", "zoo:"):
        assert text in said


def test_init_writes_a_recipe_that_builds(model_file: Path, tmp_path: Path) -> None:
    done = run("init", model_file, "-o", tmp_path / "site.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "site.toml").read_text()
    (model,) = tomllib.loads(written)["models"]
    assert (tmp_path / model["source"]).resolve() == model_file.resolve()
    assert "float32[" in written
    plan = run("build", "--recipe", "site.toml", "--dry-run", cwd=tmp_path)
    assert f"import {model['source']}" in plan.stdout
    again = run("init", model_file, "-o", tmp_path / "site.toml", cwd=tmp_path)
    assert again.returncode == 1
    assert "it is there already" in again.stderr
    assert (tmp_path / "site.toml").read_text() == written


def test_inspect_says_what_a_model_holds(model_file: Path) -> None:
    report = json.loads(run("inspect", model_file, "--json").stdout)
    assert report["parameters"] == 48 * 27 + 48 + 48 * 9 + 480 * 48 + 10 * 480 + 10
    assert {entry["name"]: entry["count"] for entry in report["operators"]}["Conv"] == 3
    assert report["inputs"][0]["shape"] == ["batch", 3, 16, 16]
    assert "GlobalAveragePool" in run("inspect", model_file).stdout


def test_zoo_list_names_the_recipes() -> None:
    names = {entry["name"] for entry in json.loads(run("zoo", "list", "--json").stdout)["models"]}
    assert names >= {"efficientnet-lite0", "centerface", "magika"}


def test_passes_are_reported_with_what_they_save(tmp_path: Path) -> None:
    site = tmp_path / "site"
    # Nothing of a net is left with one weight in a hundred; 64 values do.
    asked = ("--dtype", "int8", "--prune", "0.99", "--cluster", "64")
    result = run("build", "zoo:magika", "-o", site, *asked, "-v")
    assert result.returncode == 0, result.stderr
    recipe = tomllib.loads((site / "models" / "magika" / "recipe.toml").read_text())
    assert (recipe["models"][0]["prune"], recipe["models"][0]["cluster"]) == (0.99, 64)
    report = json.loads((site / "models" / "magika" / "report.json").read_text())
    prune, cluster = report["passes"]
    assert (prune["pass"], prune["dtype"], prune["kept"]) == ("prune", "int8", False)
    assert not any(step["passed"] for step in prune["steps"])
    assert "asked for" in prune["reason"]
    assert (cluster["pass"], cluster["asked"], cluster["kept"]) == ("cluster", 64, True)
    assert cluster["steps"][-1]["passed"]
    assert cluster["after"]["wire"] < 0.9 * cluster["before"]["wire"]
    said = result.stdout
    assert "warning magika, prune: int8: dropped. " in said
    assert f"info magika, cluster: int8: {cluster['reason']}" in said
    # What is really served is at most what was estimated.
    (variant,) = (
        v for s in manifest(site, "magika")["stages"] for v in s["variants"] if v["name"] == "int8"
    )
    assert variant["verdict"]["passed"]
    files = [
        variant["graph"]["path"],
        *(p["path"] for b in variant["weights"] for p in b["shards"]),
    ]
    assert sum(wire_size(site, name) for name in files) <= cluster["after"]["wire"]


def wire_size(site: Path, name: str) -> int:
    (path,) = site.rglob(Path(name).name)
    twin = path.with_name(f"{path.name}.br")
    return (twin if twin.exists() else path).stat().st_size


def test_a_plan_names_the_passes(tmp_path: Path) -> None:
    asked = ("--prune", "0.3", "--cluster", "64", "--dry-run")
    result = run("build", "zoo:magika", "-o", tmp_path / "site", *asked)
    assert "magika: prune 30 % of each large layer where the gate holds" in result.stdout
    assert "magika: cluster each large layer to 64 values likewise" in result.stdout
