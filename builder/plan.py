"""What a build will do, decided before anything is read, fetched or written.

Pure but for the recipes that it is handed: `--dry-run` prints a plan and stops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from builder import zoo
from builder.bundle.hosts import HOSTS
from builder.errors import UsageError
from builder.fetch import reference
from builder.recipe import (
    OPT_IN,
    CalibrationMethod,
    ElementType,
    Isolate,
    ModelRecipe,
    Pinned,
    Recipe,
    Shape,
    VariantName,
)
from builder.sources import estimator, gguf, tensorflow, torch_files
from builder.tasks import TASKS

LayoutName = Literal["site", "hf"]
"""What is written: a site, or a model's folder as the Hugging Face Hub has it."""

ZOO_PREFIX = "zoo:"

ZOO_FOLDER = Path(zoo.__file__).resolve().parent


@dataclass(frozen=True)
class Job:
    """One model to build.

    Attributes:
        recipe: What was asked for.
        base: The folder that relative paths of the recipe start from.
        portable: Only the form of each variant that runs on every runtime and device.
    """

    recipe: ModelRecipe
    base: Path
    portable: bool = False


@dataclass(frozen=True)
class Plan:
    """A whole site to build."""

    title: str
    host: str
    out: Path
    jobs: tuple[Job, ...]
    layout: LayoutName = "site"
    isolate: Isolate = "ask"
    offline: bool = True


@dataclass(frozen=True)
class Flags:
    """What the command line says; `None` and empty mean that it doesn't say."""

    dtypes: Sequence[VariantName] | Literal["auto"] = ()
    task: str | None = None
    host: str | None = None
    title: str | None = None
    max_error: float | None = None
    max_size: int | None = None
    calibration: Path | None = None
    calibration_method: CalibrationMethod | None = None
    prune: float | None = None
    cluster: int | None = None
    layout: LayoutName = "site"
    isolate: Isolate | None = None
    offline: bool | None = None
    trust: bool = False
    part: str | None = None
    sha256: str | None = None
    weights: str | None = None
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    types: Mapping[str, ElementType] = field(default_factory=dict)


SINGLE = ("sha256", "weights", "shapes", "types")
"""Flags that are of one model."""

WEIGHTS = "weights"
"""What a factory's parameter for the file of `--weights` is called."""


def make(
    sources: Sequence[str],
    out: Path,
    *,
    recipe: Recipe | None = None,
    recipe_base: Path | None = None,
    flags: Flags | None = None,
) -> Plan:
    """Combine sources, recipe and flags; flags override the recipe, the recipe the defaults.

    Args:
        sources: Paths, references to be fetched, `package.module:factory`, or `zoo:NAME`.
        out: The output folder.
        recipe: The content of a recipe file.
        recipe_base: The folder that the recipe's relative paths start from.
        flags: What the command line overrides.

    Raises:
        UsageError: Nothing to build, two models with one id, an unknown zoo name, task or host, or
            a flag of one model for several.
    """
    recipe, flags = recipe or Recipe(), flags or Flags()
    here = Path.cwd()
    jobs = [Job(_expand(model), recipe_base or here) for model in recipe.models]
    jobs += [Job(_from_source(source), here) for source in sources]
    if not jobs:
        raise UsageError("sources", "there is nothing to build", "Name a model or a recipe.")
    if len(jobs) > 1:
        for key in SINGLE:
            if getattr(flags, key):
                raise UsageError(
                    f"--{'shape' if key in {'shapes', 'types'} else key}",
                    f"it is of one model, and there are {len(jobs)}",
                    "Say it in a recipe, for each.",
                )
    overrides = _overrides(flags, single=len(jobs) == 1)
    if flags.weights is not None:
        overrides["files"] = {**jobs[0].recipe.files, WEIGHTS: _weights(flags.weights)}
    portable = flags.layout != "site"
    jobs = [_complete(Job(_update(j.recipe, overrides), j.base, portable)) for j in jobs]
    seen: set[str] = set()
    for job in jobs:
        if job.recipe.id in seen:
            raise UsageError(
                f"model id '{job.recipe.id}'",
                "two models of the site have it",
                "Give them different ids in a recipe.",
            )
        seen.add(job.recipe.id)
    if flags.layout != "site" and flags.host:
        raise UsageError(f"host '{flags.host}'", f"layout {flags.layout} isn't made for hosts")
    host = flags.host or recipe.host
    _known("host", host, HOSTS)
    titles = [flags.title, None if recipe == Recipe() else recipe.title]
    title = next((title for title in titles if title), "")
    return Plan(
        title or _default_title(jobs),
        host,
        out,
        tuple(jobs),
        flags.layout,
        isolate=flags.isolate or recipe.isolate,
        offline=recipe.offline if flags.offline is None else flags.offline,
    )


def steps(plan: Plan) -> Iterator[str]:
    """The plan in sentences, for `--dry-run`."""
    for job in plan.jobs:
        model = job.recipe
        if reference.is_reference(model.source):
            yield f"{model.id}: fetch {model.source}"
        part = f"the {model.part} of " if model.part else ""
        yield f"{model.id}: import {part}{model.source} as '{model.title}', task {model.task}"
        for pinned in [*model.files.values(), *(sample.file for sample in model.samples)]:
            yield f"{model.id}: fetch {pinned.ref}"
        every = f"every type but {' and '.join(OPT_IN)}"
        chosen = every if model.dtypes == "auto" else ", ".join(model.dtypes)
        best = ", the best of them shipped" if model.dtypes == "auto" else ""
        if model.prune is not None:
            share = f"{100 * model.prune:g} %"
            yield f"{model.id}: prune {share} of each large layer where the gate holds"
        if model.cluster is not None:
            yield f"{model.id}: cluster each large layer to {model.cluster} values likewise"
        yield f"{model.id}: convert to {chosen}, each held against fp32 on the CPU{best}"
    if plan.layout == "hf":
        yield f"write the model's folder as on the Hugging Face Hub to {plan.out}"
        return
    yield f"write the site '{plan.title}' for {HOSTS[plan.host].title} to {plan.out}"


def _from_source(source: str) -> ModelRecipe:
    if source.startswith(ZOO_PREFIX):
        return zoo.recipe(source.removeprefix(ZOO_PREFIX))
    if not reference.is_reference(source):
        return ModelRecipe(source=source)
    source, pin = reference.split_pin(source)
    return ModelRecipe(source=source, sha256=pin)


def _weights(named: str) -> Pinned:
    """The file of `--weights`: a path from here, or a reference with its hash."""
    if not reference.is_reference(named):
        return Pinned(ref=str(Path(named).resolve()))
    ref, pin = reference.split_pin(named)
    return Pinned(ref=ref, sha256=pin)


def _expand(model: ModelRecipe) -> ModelRecipe:
    """A recipe's model may stand on a zoo recipe and override parts of it."""
    if not model.source.startswith(ZOO_PREFIX):
        return model
    base = zoo.recipe(model.source.removeprefix(ZOO_PREFIX))
    return _update(base, model.model_dump(exclude_unset=True, exclude={"source"}))


def _overrides(flags: Flags, *, single: bool) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    if flags.dtypes:
        auto = flags.dtypes == "auto"
        overrides["dtypes"] = "auto" if auto else list(dict.fromkeys(flags.dtypes))
    named = ("max_error", "max_size", "calibration_method", "prune", "cluster", "part", "sha256")
    for key in named:
        if (given := getattr(flags, key)) is not None:
            overrides[key] = given
    if flags.calibration is not None:
        # Absolute: the flag starts from here, the recipe's own from its folder.
        overrides["calibration"] = str(flags.calibration.resolve())
    for key in ("shapes", "types"):
        if given := getattr(flags, key):
            overrides[key] = dict(given)
    if flags.trust:
        overrides["trust"] = True
    if flags.task:
        overrides["task"] = flags.task
    if flags.title and single:
        overrides["title"] = flags.title
    return overrides


def _update(model: ModelRecipe, changes: Mapping[str, Any]) -> ModelRecipe:
    return ModelRecipe.model_validate({**model.model_dump(exclude_unset=True), **changes})


ENDINGS = (
    *(".zip", ".gz", ".tgz", ".tar", ".onnx", gguf.ENDING),
    *estimator.FORMATS,
    *tensorflow.FORMATS,
    *torch_files.ENDINGS,
)
"""That names of files lose to become titles, in this order."""


def _complete(job: Job) -> Job:
    """Fill in id and title from the source, and find zoo files beside the zoo's recipes."""
    model = job.recipe
    _known("task", model.task, TASKS)
    fetched = reference.is_reference(model.source)
    named = reference.label(model.source) if fetched else model.source
    stem = re.split(r"[/\\:]", named.rstrip("/\\"))[-1]
    for ending in ENDINGS:
        stem = stem.removesuffix(ending)
    identifier = model.id or re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._") or "model"
    title = model.title or stem.replace("_", " ").replace("-", " ")
    return replace(job, recipe=_update(model, {"id": identifier, "title": title}))


def _known(kind: str, value: str, table: Mapping[str, object]) -> None:
    if value not in table:
        raise UsageError(f"{kind} '{value}'", "it isn't known", f"Choose from {', '.join(table)}.")


def _default_title(jobs: Sequence[Job]) -> str:
    return jobs[0].recipe.title if len(jobs) == 1 else Recipe().title
