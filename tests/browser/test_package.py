"""The npm package in a page of somebody's own, on the origin of the site: as it is, and bundled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from builder.server import create_app, running
from builder.verify import Browser
from tests import npm
from tests.browser.site import MODELS, Arrays, Site
from tests.browser.test_hosting import hard_link

PAGE = """<!doctype html><meta charset="utf-8"><title>Somebody's own</title>
<script type="module" src="{script}"></script>
"""

SCRIPT = """
import {{ load }} from "{module}";
globalThis.compute = async (url, inputs) => {{
  const model = await load(url, {{ device: "wasm", dtype: "fp32" }});
  const {{ outputs }} = await model.run(inputs);
  await model.dispose();
  return {{ dims: outputs.picked.dims, data: [...outputs.picked.data] }};
}};
"""


def as_it_is(package: Path, page: Path) -> None:
    """A page that imports the module out of `node_modules` on the same host."""
    shutil.copytree(package, page / "node_modules" / package.name)
    script = SCRIPT.format(module=f"./node_modules/{package.name}/index.js")
    (page / "script.js").write_text(script)
    (page / "index.html").write_text(PAGE.format(script="./script.js"))


def bundled(package: Path, page: Path) -> None:
    """What Vite makes of a page that imports the package by its name."""
    source = page.with_name("source")
    shutil.copytree(package, source / "node_modules" / package.name)
    (source / "script.js").write_text(SCRIPT.format(module=package.name))
    (source / "index.html").write_text(PAGE.format(script="/script.js"))
    vite = npm.WEB / "node_modules" / "vite" / "bin" / "vite.js"
    done = npm.node(vite, "build", "--base=./", f"--outDir={page}", "--emptyOutDir", cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout.lower() + done.stderr.lower()
    assert any("worker" in path.name for path in page.rglob("*.js"))


@pytest.mark.parametrize("make", [as_it_is, bundled])
def test_a_page_of_somebodys_own_computes_right(
    make: Callable[[Path, Path], None],
    npm_package: Path,
    site: Site,
    chromium: Browser,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "host"
    shutil.copytree(site.folder, folder, copy_function=hard_link)
    page = folder / "page"
    page.mkdir()
    make(npm_package, page)
    rng = np.random.default_rng(5)
    inputs: Arrays = {
        "x": rng.normal(0, 1, (3, 8)).astype(np.float32),
        "ids": np.array([9, 0, 4], np.int64),
        "mask": rng.random((3, 16)) > 0.5,
    }
    given = {n: {"data": a.ravel().tolist(), "dims": list(a.shape)} for n, a in inputs.items()}
    with running(create_app(folder)) as url:
        chromium.goto(f"{url}page/")
        got = chromium.evaluate("return compute(...args)", f"{url}models/mixed/", given)
    expected = site.on_the_cpu("mixed", "model", "fp32", inputs)["picked"]
    assert got["dims"] == list(expected.shape)
    np.testing.assert_allclose(got["data"], expected.ravel(), rtol=1e-5, atol=1e-6)


CONSUMER = """\
import {{ load }} from "onnxsite-web";
import type {{ Inputs, Outputs }} from "./{model}/model.js";
const model = await load<Inputs, Outputs>("models/{model}/");
const {{ outputs }} = await model.run({{ {values} }});
export const taken = [{outputs}];
await model.run({{ {values}, another: {value} }});
"""
VALUE = "{ data: [0], dims: [1] }"


def test_the_models_of_a_site_have_types(npm_package: Path, site: Site, tmp_path: Path) -> None:
    shutil.copytree(npm_package, tmp_path / "node_modules" / npm_package.name)
    for model in MODELS:
        (tmp_path / model).mkdir()
        shutil.copy(site.folder / "models" / model / "model.d.ts", tmp_path / model)
        sides = site.manifest(model)["interface"]
        required = [spec["name"] for spec in sides["inputs"] if "default" not in spec]
        values = ", ".join(f"{name}: {VALUE}" for name in required)
        outputs = ", ".join(
            f'outputs.{spec["name"]}.dtype satisfies "{spec["dtype"]}"' for spec in sides["outputs"]
        )
        text = CONSUMER.format(model=model, values=values, outputs=outputs, value=VALUE)
        (tmp_path / f"{model}.ts").write_text(text)
    # The last line alone, of each.
    assert npm.refused(tmp_path, "bundler") == {(f"{model}.ts", 6) for model in MODELS}
