"""Run a plan: source to model, model to variants, variants to a site. Touches the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from builder import bundle_cache, fetch, passes, precision, sources
from builder.bundle import output, site
from builder.bundle.bundle import Built, BuiltVariant, write_bundle
from builder.bundle.manifest import dumps
from builder.bundle.store import Store
from builder.errors import GateError, OnnxsiteError
from builder.estimate import peak_activations
from builder.plan import Job, Plan
from builder.session import Session
from builder.tasks import TASKS, interface
from builder.tools import versions

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

SEED = 20
"""Of everything random in a build: crops, noise, unknown inputs."""

PROBE_SAMPLES = 3
"""How many samples get a small reference of their own, for the page's self-test."""

Report = Callable[[str, str], None]
"""Called with a model's id and what is being done to it."""


@dataclass(frozen=True)
class Result:
    """A finished site."""

    out: Path
    manifests: tuple[types.Manifest, ...]
    cached: tuple[str, ...]
    """Ids of the models that were taken from an earlier build."""


def run(plan: Plan, report: Report = lambda _model, _step: None) -> Result:
    """Build every model of the plan, then the site; the output changes only if all goes well.

    Raises:
        OnnxsiteError: See `builder.errors`; the output folder is then as it was before.
    """
    output.check(plan.out)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onnxsite-")))
        bundles, cached = [], []
        for job in plan.jobs:
            folder, hit = _bundle(job, scratch, report)
            bundles.append(folder)
            cached += [job.recipe.id] * hit
        with output.replacing(plan.out) as staging:
            report("site", "write pages and compress")
            manifests = site.write_site(staging, plan, bundles)
        return Result(plan.out, tuple(manifests), tuple(cached))


def _bundle(job: Job, scratch: Path, report: Report) -> tuple[Path, bool]:
    """A model's bundle folder, from the cache if the same was built before."""
    recipe = job.recipe
    report(recipe.id, "fetch files")
    files = {name: fetch.fetch(pinned, base=job.base) for name, pinned in recipe.files.items()}
    samples = [fetch.fetch(sample.file, base=job.base) for sample in recipe.samples]
    key = bundle_cache.key(job, files, samples)
    found = bundle_cache.find(key)
    if found is not None:
        report(recipe.id, "unchanged, taken from the cache")
        return found, True
    folder = scratch / recipe.id
    folder.mkdir()
    work = scratch / f"{recipe.id}.work"
    work.mkdir()
    try:
        built = build_model(job, files, samples, work, report)
    except OnnxsiteError as error:
        error.add_note(recipe.id)
        raise
    (folder / bundle_cache.MANIFEST).write_bytes(dumps(write_bundle(built, Store(folder))))
    shutil.rmtree(work)
    return bundle_cache.keep(key, folder), False


def build_model(
    job: Job, files: dict[str, Path], samples: list[Path], work: Path, report: Report
) -> Built:
    """Import, normalise, add pre and post, convert and judge one model.

    Raises:
        SourceError: The source can't become a model.
        GateError: Every variant that was asked for failed.
    """
    recipe = job.recipe
    task = TASKS[recipe.task]
    report(recipe.id, "import")
    original = sources.load(recipe, base=job.base, files=files, work=work)
    report(recipe.id, "bring into normal form")
    stages = task.build(original, recipe.options, files)
    decoded = [task.decode(path) for path in samples]
    evaluation = _evaluation(task, stages, original, decoded)
    model = passes.normalise(original, probes=[ref.inputs for ref in evaluation[:2]])
    probes = _references(task, stages, original, decoded, recipe.samples and samples)
    variants, dropped = {}, []
    for dtype in recipe.dtypes:
        report(recipe.id, f"convert to {dtype} and measure")
        outcome = precision.make(
            model,
            dtype,
            evaluation,
            metric=task.metric,
            tolerance=recipe.tolerance.get(dtype),
        )
        model.events += [event for event in outcome.events if event not in model.events]
        if outcome.ir is None or outcome.verdict is None:
            dropped.append((dtype, outcome.reason, outcome.verdict))
            model.event("warning", dtype, f"not shipped: {outcome.reason}")
            continue
        worst = min(_probe_snr(Session(outcome.ir), probe) for probe in probes)
        variants[dtype] = BuiltVariant(
            ir=outcome.ir,
            compute=outcome.compute,
            verdict=outcome.verdict,
            minimum=precision.selftest_minimum(dtype, outcome.verdict, worst),
            activations=peak_activations(outcome.ir, evaluation[0].inputs),
        )
    if not variants:
        reasons = "; ".join(f"{dtype}: {reason}" for dtype, reason, _ in dropped)
        raise GateError(f"model '{recipe.id}'", f"no variant is right ({reasons})")
    return Built(
        recipe=recipe,
        model=model,
        interface=interface(stages, model.signature),
        pre=stages.pre,
        post=stages.post,
        labels=stages.labels,
        variants=variants,
        dropped=dropped,
        references=probes,
        samples=samples,
        tools=versions(recipe),
    )
