"""The zoo's recipes are complete: pinned, credited, licensed, and fit for their task."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from builder import zoo
from builder.recipe import ModelRecipe
from builder.tasks import TASKS

RECIPES = sorted(zoo.FOLDER.glob("*.toml"))


@pytest.fixture(params=RECIPES, ids=lambda path: path.stem)
def recipe(request: pytest.FixtureRequest) -> ModelRecipe:
    path: Path = request.param
    return zoo.recipe(path.stem)


def test_there_are_three_with_their_files_named_after_them() -> None:
    assert [path.stem for path in RECIPES] == ["centerface", "efficientnet-lite0", "magika"]
    for path in RECIPES:
        assert tomllib.loads(path.read_text(encoding="utf-8"))["id"] == path.stem


def test_everything_is_pinned_to_a_version_and_a_hash(recipe: ModelRecipe) -> None:
    for pinned in [*recipe.files.values(), *(sample.file for sample in recipe.samples)]:
        assert pinned.ref.startswith("pypi:")
        assert "==" in pinned.ref
        assert pinned.sha256 is not None


def test_visitors_are_told_what_it_is_and_whose(recipe: ModelRecipe) -> None:
    assert recipe.task in TASKS
    assert recipe.title
    assert 60 < len(recipe.description) < 200
    assert recipe.homepage
    assert recipe.homepage.startswith("https://")
    assert recipe.licence.url
    assert recipe.licence.name != "unstated" or recipe.licence.note
    assert len(recipe.samples) >= 3
    assert all(sample.title and sample.credit and sample.mime for sample in recipe.samples)
