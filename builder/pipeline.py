"""Run a plan: source to model, model to variants, variants to a site. Touches the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from builder import bundle_cache, passes, precision, references, sources
from builder.bundle import output, site
from builder.bundle.bundle import Built, BuiltVariant, write_bundle
from builder.bundle.manifest import dumps
from builder.bundle.store import Store
from builder.errors import GateError, OnnxsiteError
from builder.estimate import peak_activations
from builder.fetch import fetch
from builder.model import Reference, Verdict
from builder.plan import Job, Plan
from builder.precision.metrics import snr
from builder.recipe import VariantName
from builder.session import Session
from builder.tasks import TASKS
from builder.tools import versions

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

Report = Callable[[str, str], None]
"""Called with a model's id and what is being done to it."""


@dataclass(frozen=True)
class Result:
    """A finished site.

    Attributes:
        out: Its folder.
        manifests: In the order of the plan.
        cached: Ids of the models that were taken from an earlier build.
    """

    out: Path
    manifests: tuple[types.Manifest, ...]
    cached: tuple[str, ...]


def run(plan: Plan, report: Report = lambda _model, _step: None) -> Result:
    """Build every model of the plan, then the site; the output changes only if all goes well.

    Raises:
        OnnxsiteError: See `builder.errors`; the output folder is then as it was before.
    """
    output.check(plan.out)
    with tempfile.TemporaryDirectory(prefix="onnxsite-") as scratch:
        bundles: list[Path] = []
        cached: list[str] = []
        for job in plan.jobs:
            try:
                folder, hit = _bundle(job, Path(scratch), report)
            except OnnxsiteError as error:
                error.add_note(job.recipe.id)
                raise
            bundles.append(folder)
            cached += [job.recipe.id] * hit
        with output.replacing(plan.out) as staging:
            report("site", "write pages and compress")
            manifests = site.write_site(staging, plan, bundles)
        return Result(plan.out, tuple(manifests), tuple(cached))


def _bundle(job: Job, scratch: Path, report: Report) -> tuple[Path, bool]:
    """A model's bundle folder, and whether an earlier build had made the same."""
    recipe = job.recipe
    report(recipe.id, "fetch files")
    files = {name: fetch(pinned, base=job.base) for name, pinned in recipe.files.items()}
    samples = [fetch(sample.file, base=job.base) for sample in recipe.samples]
    key = bundle_cache.key(job, files, samples)
    found = bundle_cache.find(key)
    if found is not None:
        report(recipe.id, "unchanged, taken from the cache")
        return found, True
    folder, work = scratch / recipe.id, scratch / f"{recipe.id}.work"
    folder.mkdir()
    work.mkdir()
    built = build_model(job, files, samples, work, report)
    manifest = write_bundle(built, Store(folder))
    (folder / bundle_cache.MANIFEST).write_bytes(dumps(manifest))
    shutil.rmtree(work)
    return bundle_cache.keep(key, folder), False


def build_model(
    job: Job, files: Mapping[str, Path], samples: Sequence[Path], work: Path, report: Report
) -> Built:
    """Import, normalise, add pre and post, convert and judge one model.

    Args:
        job: What to build.
        files: The recipe's files by name, fetched.
        samples: The recipe's samples, fetched, in its order.
        work: An empty folder for intermediate files.
        report: Told every step.

    Raises:
        SourceError: The source can't become a model.
        UsageError: The task's options don't fit the model.
        GateError: Every variant that was asked for failed.
    """
    recipe, task = job.recipe, TASKS[job.recipe.task]
    report(recipe.id, "import")
    original = sources.load(recipe, base=job.base, files=files, work=work)
    report(recipe.id, "make references")
    stages = task.build(original, recipe.options, files)
    decoded = [stages.decode(path) for path in samples]
    gate = references.for_gate(original, stages, decoded)
    titles = [sample.title for sample in recipe.samples]
    browser = references.for_browser(original, stages, decoded, titles)
    probes = [references.as_model_reference(original.signature, probe) for probe in browser]
    report(recipe.id, "bring into normal form")
    model = passes.normalise(original, probes=[reference.inputs for reference in gate[:2]])
    variants: dict[str, BuiltVariant] = {}
    dropped: list[tuple[str, str, Verdict | None]] = []
    for dtype in recipe.dtypes:
        report(recipe.id, f"convert to {dtype} and measure")
        outcome = precision.make(
            model, dtype, gate, metric=task.metric, tolerance=recipe.tolerance.get(dtype)
        )
        for event in outcome.events:
            model.event(event.level, event.step, event.message)
        if outcome.ir is None or outcome.verdict is None:
            dropped.append((dtype, outcome.reason, outcome.verdict))
            model.event("warning", dtype, f"not shipped: {outcome.reason}")
            continue
        variants[dtype] = BuiltVariant(
            ir=outcome.ir,
            compute=outcome.compute,
            verdict=outcome.verdict,
            minimum=_minimum(dtype, outcome.ir, outcome.verdict, probes),
            activations=peak_activations(outcome.ir, gate[0].inputs),
        )
    if not variants:
        reasons = "; ".join(f"{dtype}: {reason}" for dtype, reason, _ in dropped)
        raise GateError(f"model '{recipe.id}'", f"no variant is right ({reasons})")
    return Built(
        recipe=recipe,
        model=model,
        interface=stages.interface,
        pre=stages.pre,
        post=stages.post,
        labels=stages.labels,
        variants=variants,
        dropped=dropped,
        references=browser,
        samples=samples,
        tools=versions(recipe),
    )


def _minimum(
    dtype: VariantName, converted: ir.Model, verdict: Verdict, probes: Sequence[Reference]
) -> float:
    """What a browser must reach on the probes, from what the CPU reaches on them."""
    session = Session(converted)
    worst = min(snr([probe.outputs], [references.run_model(session, probe)]) for probe in probes)
    return precision.selftest_minimum(dtype, verdict, worst)
