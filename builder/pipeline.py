"""Run a plan: source to model, model to variants, variants to a site. Touches the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from builder import bundle_cache, passes, references, sources, variants
from builder.bundle import huggingface, output, site
from builder.bundle.bundle import Built, write_bundle
from builder.bundle.bundle import report as report_of
from builder.bundle.hosts import HOSTS
from builder.bundle.manifest import dumps
from builder.bundle.store import Store
from builder.errors import OnnxsiteError, UsageError
from builder.fetch import Located, fetch, locate
from builder.model import Model
from builder.plan import Job, LayoutName, Plan
from builder.recipe import ModelRecipe
from builder.tasks import TASKS, Stages
from builder.tools import versions

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

Report = Callable[[str, str], None]
"""Called with a model's id and what is being done to it."""


@dataclass(frozen=True)
class Layout:
    """A row of `LAYOUTS`.

    Attributes:
        check: Raises UsageError for a plan that can't be written so, before anything is built.
        write: Fills an empty folder from a plan and its bundles.
        reports: Where the report of a model lies, `{}` standing for the model's id.
    """

    check: Callable[[Plan], None]
    write: Callable[[Path, Plan, Sequence[Path]], list[types.Manifest]]
    reports: str


LAYOUTS: dict[LayoutName, Layout] = {
    "site": Layout(lambda _: None, site.write_site, f"{site.MODELS}/{{}}/{bundle_cache.REPORT}"),
    "hf": Layout(huggingface.check, huggingface.write_folder, bundle_cache.REPORT),
}


@dataclass(frozen=True)
class Result:
    """What was built.

    Attributes:
        out: Its folder.
        manifests: In the order of the plan; in layout `hf` without `runtime`.
        cached: Ids of the models that were taken from an earlier build.
        reports: The file with every attempt, by the model's id.
    """

    out: Path
    manifests: tuple[types.Manifest, ...]
    cached: tuple[str, ...]
    reports: Mapping[str, Path]


def run(plan: Plan, report: Report = lambda _model, _step: None) -> Result:
    """Build every model of the plan, then the folder; `out` changes only if all goes well.

    Raises:
        OnnxsiteError: See `builder.errors`; the output folder is then as it was before.
    """
    output.check(plan.out)
    layout = LAYOUTS[plan.layout]
    layout.check(plan)
    with tempfile.TemporaryDirectory(prefix="onnxsite-") as scratch:
        bundles: list[Path] = []
        cached: list[str] = []
        jobs: list[Job] = []
        for job in plan.jobs:
            try:
                report(job.recipe.id, "fetch files")
                located = locate(job.recipe, base=job.base)
                jobs.append(replace(job, recipe=located.recipe))
                folder, hit = _bundle(
                    job, located, HOSTS[plan.host].shard_bytes, Path(scratch), report
                )
            except OnnxsiteError as error:
                error.add_note(job.recipe.id)
                raise
            bundles.append(folder)
            cached += [job.recipe.id] * hit
        with output.replacing(plan.out) as staging:
            report(plan.layout, "write the folder")
            manifests = layout.write(staging, replace(plan, jobs=tuple(jobs)), bundles)
        ids = [entry["id"] for entry in manifests]
        reports = {name: plan.out / layout.reports.format(name) for name in ids}
        return Result(plan.out, tuple(manifests), tuple(cached), reports)


def _bundle(
    job: Job, located: Located, shard_bytes: int, scratch: Path, report: Report
) -> tuple[Path, bool]:
    """A model's bundle folder, and whether an earlier build had made the same.

    Args:
        job: As it was asked for: whether its source is pinned stands in the bundle.
        located: What it names.
        shard_bytes: The host's limit of a file.
        scratch: A folder for this and other models.
        report: Told every step.
    """
    recipe, files = located.recipe, located.files
    samples = [fetch(sample.file, base=job.base) for sample in recipe.samples]
    calibration = _calibration(job)
    key = bundle_cache.key(job, located, samples, calibration, shard_bytes=shard_bytes)
    found = bundle_cache.find(key)
    if found is not None:
        report(recipe.id, "unchanged, taken from the cache")
        return found, True
    folder, work = scratch / recipe.id, scratch / f"{recipe.id}.work"
    folder.mkdir()
    work.mkdir()
    built = build_model(
        replace(job, recipe=recipe), files, samples, calibration, work, report, located=located
    )
    manifest = write_bundle(built, Store(folder, shard_bytes))
    (folder / bundle_cache.REPORT).write_bytes(dumps(report_of(built.variants)))
    (folder / bundle_cache.MANIFEST).write_bytes(dumps(manifest))
    shutil.rmtree(work)
    return bundle_cache.keep(key, folder), False


def _calibration(job: Job) -> list[Path]:
    """The files of the recipe's calibration folder, by name."""
    if job.recipe.calibration is None:
        return []
    folder = job.base / job.recipe.calibration
    found = sorted(path for path in folder.glob("*") if path.is_file())
    if not found:
        raise UsageError(
            str(folder),
            "there are no files to calibrate on",
            "Name a folder of files like samples.",
        )
    return found


def build_model(
    job: Job,
    files: Mapping[str, Path],
    samples: Sequence[Path],
    calibration: Sequence[Path],
    work: Path,
    report: Report,
    *,
    located: Located | None = None,
) -> Built:
    """Import, normalise, add pre and post, convert and judge one model.

    Args:
        job: What to build.
        files: The recipe's files by name, fetched.
        samples: The recipe's samples, fetched, in its order.
        calibration: Files like the samples that conversions are calibrated on.
        work: An empty folder for intermediate files.
        report: Told every step.
        located: Where a source was fetched from.

    Raises:
        SourceError: The source can't become a model.
        UsageError: The task's options don't fit the model.
        GateError: Every variant that was asked for failed.
    """
    recipe = job.recipe
    report(recipe.id, "import")
    imported = sources.load_parts(recipe, base=job.base, files=files, work=work)
    parts = imported.models
    if located is not None:
        for model in parts.values():
            located.tell(model)
    report(recipe.id, "make references")
    stages = _stages(recipe, parts, files)
    decoded = [stages.decode(path) for path in samples]
    calibrating = [stages.decode(path) for path in calibration]
    gates = references.for_gate(parts, stages, decoded, calibrating)
    titles = [sample.title for sample in recipe.samples]
    if not decoded and calibrating:
        decoded, titles = calibrating[:1], ["held back"]
    browser = references.for_browser(parts, stages, decoded, titles)
    # All variants of each part: which are worth shipping shows when every part has them.
    asked = recipe if len(parts) == 1 else recipe.model_copy(update={"dtypes": recipe.every})
    models: dict[str, Model] = {}
    made: dict[str, variants.Variants] = {}
    for part, gate in gates.items():
        said = f"{part}: " if len(parts) > 1 else ""

        def tell(step: str, said: str = said) -> None:
            report(recipe.id, f"{said}{step}")

        tell("bring into normal form")
        models[part] = passes.normalise(
            parts[part], probes=[reference.inputs for reference in gate.references[:2]]
        )
        made[part] = variants.make(
            models[part],
            asked,
            gate,
            [references.of_part(part, parts, probe) for probe in browser],
            metric=recipe.metric or TASKS[recipe.task].metric,
            post=stages.post,
            report=tell,
            portable=job.portable,
        )
    return Built(
        recipe=recipe,
        models=models,
        generation=imported.generation,
        interface=stages.interface,
        pre=stages.pre,
        post=stages.post,
        labels=stages.labels,
        variants=made if len(made) == 1 else variants.jointly(made, models),
        references=browser,
        samples=samples,
        tools=versions(recipe, job.base, files),
    )


def _stages(recipe: ModelRecipe, parts: Mapping[str, Model], files: Mapping[str, Path]) -> Stages:
    """What the recipe's task puts around a model.

    Raises:
        UsageError: The task is for models in one part, or its options don't fit.
    """
    task = TASKS[recipe.task]
    if len(parts) == 1:
        return task.build(next(iter(parts.values())), recipe.options, files)
    if task.build_parts is None:
        able = ", ".join(name for name, row in TASKS.items() if row.build_parts)
        raise UsageError(
            f"task '{task.name}'",
            f"it is for models in one part, and this one is in {len(parts)}: {', '.join(parts)}",
            f"Choose from {able}; or build a single part with --part.",
        )
    return task.build_parts(parts, recipe.options, files)
