"""Recipes are read strictly and written back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import recipe
from builder.errors import UsageError

TEXT = """
title = "Ours"
host = "netlify"

[[models]]
source = "net.onnx"
dtypes = ["fp32"]
shapes = { x = ["batch", 3, "height", "width"] }
tolerance = { fp32 = 60.0 }
"""


def test_a_file_is_read_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(TEXT)
    loaded = recipe.load(path)
    assert loaded.host == "netlify"
    assert loaded.models[0].shapes == {"x": ["batch", 3, "height", "width"]}
    assert loaded.models[0].dtypes == ["fp32"]
    path.write_text(recipe.dump(loaded))
    assert recipe.load(path) == loaded


def test_pyproject_holds_it_under_tool_builder(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "app"\n[tool.builder]\ntitle = "Ours"\n')
    assert recipe.load(path).title == "Ours"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("title = ", "isn't valid TOML"),
        ("titel = 'x'", "titel"),
        ("models = [{ source = 'a.onnx', dtypes = ['int3'] }]", "models.0.dtypes.list"),
        ("models = [{ title = 'no source' }]", "models.0.source"),
        ("models = [{ source = 'a', files = { w = { ref = 'w', sha256 = 'beef' } } }]", "sha256"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=named) as caught:
        recipe.load(path)
    assert "site.toml" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_recipe_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        recipe.load(tmp_path / "none.toml")
