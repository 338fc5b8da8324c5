"""What is asked for in flags, recipe and zoo comes together in the right order."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import plan
from builder.errors import UsageError
from builder.recipe import ModelRecipe, Recipe


def test_id_and_title_come_from_the_file() -> None:
    (job,) = plan.make(["models/Leaf_Net v2.onnx"], Path("out")).jobs
    assert (job.recipe.id, job.recipe.title) == ("leaf_net-v2", "Leaf Net v2")
    (job,) = plan.make(["my.nets:make_model"], Path("out")).jobs
    assert (job.recipe.id, job.recipe.title) == ("make_model", "make model")


def test_flags_override_the_recipe_and_the_recipe_the_defaults() -> None:
    recipe = Recipe(
        title="Recipe's",
        host="netlify",
        models=[ModelRecipe(source="a.onnx", dtypes=["fp32"]), ModelRecipe(source="b.onnx")],
    )
    made = plan.make([], Path("out"), recipe=recipe)
    assert (made.title, made.host) == ("Recipe's", "netlify")
    assert [job.recipe.dtypes for job in made.jobs] == [["fp32"], "auto"]
    flags = plan.Flags(dtypes=["int8"], host="vercel", title="Flag's")
    made = plan.make([], Path("out"), recipe=recipe, flags=flags)
    assert (made.title, made.host) == ("Flag's", "vercel")
    assert [job.recipe.dtypes for job in made.jobs] == [["int8"], ["int8"]]


def test_a_title_names_the_only_model_too() -> None:
    made = plan.make(["a.onnx"], Path("out"), flags=plan.Flags(title="Mine"))
    assert (made.title, made.jobs[0].recipe.title) == ("Mine", "Mine")
    made = plan.make(["a.onnx", "b.onnx"], Path("out"), flags=plan.Flags(title="Mine"))
    assert (made.title, made.jobs[0].recipe.title) == ("Mine", "a")


def test_a_recipe_may_stand_on_the_zoo() -> None:
    model = ModelRecipe(source="zoo:magika", title="Our files")
    (job,) = plan.make([], Path("out"), recipe=Recipe(models=[model])).jobs
    assert (job.recipe.title, job.recipe.task, job.recipe.id) == (
        "Our files",
        "file-type",
        "magika",
    )


def test_relative_paths_start_from_the_recipe() -> None:
    recipe = Recipe(models=[ModelRecipe(source="a.onnx")])
    made = plan.make(["b.onnx"], Path("out"), recipe=recipe, recipe_base=Path("/recipes"))
    assert [job.base for job in made.jobs] == [Path("/recipes"), Path.cwd()]


@pytest.mark.parametrize(
    ("sources", "flags", "named"),
    [
        ([], plan.Flags(), "nothing to build"),
        (["a.onnx", "x/a.onnx"], plan.Flags(), "two models"),
        (["a.onnx"], plan.Flags(task="chess"), "chess"),
        (["a.onnx"], plan.Flags(host="geocities"), "geocities"),
        (["zoo:magica"], plan.Flags(), "magika"),
    ],
)
def test_what_is_not_there_is_named(sources: list[str], flags: plan.Flags, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        plan.make(sources, Path("out"), flags=flags)
