"""Recipes of real models: one TOML file each, every byte pinned by hash."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builder.errors import UsageError
from builder.recipe import ModelRecipe, parse

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Entry:
    """What `zoo list` shows of a recipe."""

    name: str
    title: str
    task: str
    licence: str
    description: str


def entries() -> list[Entry]:
    """Every recipe, by name."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        model = recipe(path.stem)
        found.append(
            Entry(path.stem, model.title, model.task, model.licence.name, model.description)
        )
    return found


@cache
def recipe(name: str) -> ModelRecipe:
    """The recipe called `name`.

    Raises:
        UsageError: There is none; the remedy lists near names.
    """
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in FOLDER.glob("*.toml"))
        near = difflib.get_close_matches(name, known) or known
        raise UsageError(
            f"zoo:{name}", "there is no such recipe", f"Did you mean {' or '.join(near)}?"
        )
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return parse({"models": [content]}, path.name).models[0]
