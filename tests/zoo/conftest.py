"""The zoo's models, each fetched and imported once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from builder import sources, zoo
from builder.fetch import fetch
from builder.model import Model, Tensors
from builder.recipe import ModelRecipe
from builder.tasks import TASKS, Runner, Stages


@dataclass(frozen=True)
class Imported:
    """A model of the zoo with its stages, ready to run."""

    recipe: ModelRecipe
    model: Model
    stages: Stages
    runner: Runner
    samples: dict[str, Path]

    def run(self, path: Path) -> Tensors:
        """The results for one file."""
        return self.runner.results(self.stages.decode(path))


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Imported]:
    """Give a model of the zoo by its name."""

    @cache
    def load(name: str) -> Imported:
        recipe = zoo.recipe(name)
        files = {key: fetch(pinned) for key, pinned in recipe.files.items()}
        samples = [fetch(sample.file) for sample in recipe.samples]
        work = tmp_path_factory.mktemp(name)
        model = sources.load(recipe, base=zoo.FOLDER, files=files, work=work)
        stages = TASKS[recipe.task].build(model, recipe.options, files)
        runner = Runner(stages.pre, model.ir, stages.post)
        return Imported(recipe, model, stages, runner, {path.name: path for path in samples})

    return load
