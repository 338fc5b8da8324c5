"""All variants of one model: every form that was asked for, judged, and the ones worth shipping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from builder import precision
from builder.errors import GateError, UnsupportedError
from builder.estimate import peak_activations
from builder.model import Model, Reference, Tensors, Verdict
from builder.precision.gate import Finish
from builder.precision.metrics import Outputs, snr
from builder.recipe import OPT_IN, ModelRecipe, VariantName
from builder.references import Gate
from builder.session import Session
from builder.webruntime import offline

Report = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True)
class BuiltVariant:
    """A form that passed its gate.

    Attributes:
        form: What is stored, what is computed in, and where.
        minimum: Signal-to-noise ratio in dB that a browser must reach on the probe.
        activations: Bytes of the largest activations that live at once, estimated.
        optimised: What WASM reads instead, where there is such a thing.
    """

    form: precision.Form
    ir: ir.Model
    verdict: Verdict
    minimum: float
    activations: int
    optimised: offline.Optimised | None = None


@dataclass(frozen=True)
class Dropped:
    """A dtype that isn't shipped, and why."""

    dtype: VariantName
    reason: str
    verdict: Verdict | None


@dataclass(frozen=True)
class Variants:
    """What became of everything that was asked for.

    Attributes:
        shipped: In the order of `builder.precision.forms.FORMS`.
        dropped: One for each dtype of which no form is shipped.
        outcomes: Of every form that was tried.
        passed: What became of the passes that the recipe asks for, by dtype.
    """

    shipped: tuple[BuiltVariant, ...]
    dropped: tuple[Dropped, ...]
    outcomes: tuple[precision.Outcome, ...]
    passed: Mapping[VariantName, tuple[precision.Passed, ...]]


def make(
    model: Model,
    recipe: ModelRecipe,
    gate: Gate,
    probes: Sequence[Reference],
    *,
    metric: str,
    post: ir.Model | None,
    report: Report,
    portable: bool = False,
) -> Variants:
    """Convert and judge every form of the dtypes that a recipe asks for.

    Args:
        model: In normal form; events are added to it.
        recipe: dtypes, tolerances, limits.
        gate: What to judge and to calibrate on.
        probes: What browsers check themselves on.
        metric: A key of `builder.precision.METRICS`.
        post: The stage behind the model, for metrics of results.
        report: Told every step.
        portable: Make only the first form of each dtype, which runs everywhere that it can.

    Raises:
        GateError: Nothing is left to ship.
    """
    plain = precision.Subject(model, gate.references, gate.calibration, recipe.calibration_method)
    names = [step.name for step in precision.PASSES]
    asked = {key: value for key in names if (value := getattr(recipe, key)) is not None}
    ladder = precision.Ladder(plain, asked)
    lighter: dict[VariantName, precision.Lighter] = {}
    finish = _finish(post, gate.values) if post is not None else None
    outcomes: list[precision.Outcome] = []
    for form in precision.FORMS:
        if form.dtype in OPT_IN if recipe.dtypes == "auto" else form.dtype not in recipe.dtypes:
            continue
        if any(o.form.dtype == form.dtype and (portable or o.ir is None) for o in outcomes):
            continue  # its base is enough, or failed
        report(f"convert to {form.name} and measure")
        demand = precision.Demand(
            metric,
            recipe.tolerance.get(form.dtype),
            recipe.max_error,
            recipe.max_size,
            wire=bool(asked),
            finish=finish,
        )
        base = lighter.get(precision.STORAGE.get(form.dtype, form.dtype))
        outcome = precision.make(base.subject if base else plain, form, demand)
        if outcome is not None and asked and base is None:
            report(f"{' and '.join(asked)} {form.dtype} and measure")
            held = precision.HELD_TO.get(form.dtype, form.dtype)
            least = recipe.tolerance.get(form.dtype, recipe.tolerance.get(held))
            held_to = replace(demand, held_to=held, tolerance=least)
            base = lighter[form.dtype] = ladder.climb(form, held_to, outcome)
            outcome = base.outcome
            for passed in base.passed:
                model.events += precision.lighter_events(form, passed)
        if outcome is not None:
            outcomes.append(outcome)
            _tell(model, outcome)
    beaten = precision.dominated(outcomes) if recipe.dtypes == "auto" else {}
    dropped = _dropped(outcomes, beaten)
    for entry in dropped:
        said = f"not shipped: {entry.reason}"
        model.event("info" if entry.dtype in beaten else "warning", entry.dtype, said)
    left_out = {entry.dtype for entry in dropped}
    report("optimise graphs for WASM")
    shipped = tuple(
        _optimised(
            model,
            _built(outcome.form, outcome.ir, outcome.verdict, gate.references[0], probes),
            probes,
        )
        for outcome in outcomes
        if outcome.ir is not None and outcome.verdict and outcome.form.dtype not in left_out
    )
    if not shipped:
        reasons = "; ".join(f"{entry.dtype}: {entry.reason}" for entry in dropped)
        raise GateError(f"model '{recipe.id}'", f"no variant is right ({reasons})")
    made = {dtype: found.passed for dtype, found in lighter.items()}
    return Variants(shipped, dropped, tuple(outcomes), made)


def jointly(made: Mapping[str, Variants], models: Mapping[str, Model]) -> dict[str, Variants]:
    """Ship only what every part of a model has: a page runs all of them in one variant.

    Args:
        made: Of each part by its name.
        models: The parts; events are added to them.
    """
    common = set.intersection(*(_names(part) for part in made.values()))
    kept: dict[str, Variants] = {}
    for name, part in made.items():
        shipped = tuple(variant for variant in part.shipped if variant.form.name in common)
        left = {variant.form.dtype for variant in part.shipped} - {v.form.dtype for v in shipped}
        dropped = list(part.dropped)
        for variant in part.shipped:
            if variant.form.dtype in left:
                left.remove(variant.form.dtype)
                lacking = [other for other in made if variant.form.name not in _names(made[other])]
                reason = f"the {' and the '.join(lacking)} can't have it"
                dropped.append(Dropped(variant.form.dtype, reason, variant.verdict))
                models[name].event("info", variant.form.dtype, f"not shipped: {reason}")
        kept[name] = replace(part, shipped=shipped, dropped=tuple(dropped))
    return kept


def _names(part: Variants) -> set[str]:
    return {variant.form.name for variant in part.shipped}


def _tell(model: Model, outcome: precision.Outcome) -> None:
    for event in outcome.events:
        model.event(event.level, event.step, event.message)
    base = next(form for form in precision.FORMS if form.dtype == outcome.form.dtype)
    if outcome.ir is None and outcome.form is not base:
        model.event("info", outcome.form.name, f"not shipped: {outcome.reason}")


def _dropped(
    outcomes: Sequence[precision.Outcome], beaten: Mapping[VariantName, str]
) -> tuple[Dropped, ...]:
    """The first form of a dtype speaks for it."""
    found: dict[VariantName, Dropped] = {}
    passed = {outcome.form.dtype for outcome in outcomes if outcome.ir is not None}
    for outcome in outcomes:
        dtype = outcome.form.dtype
        if dtype in beaten:
            found.setdefault(dtype, Dropped(dtype, beaten[dtype], outcome.verdict))
        elif dtype not in passed:
            found.setdefault(dtype, Dropped(dtype, outcome.reason, outcome.verdict))
    return tuple(found.values())


def _built(
    form: precision.Form,
    graph: ir.Model,
    verdict: Verdict,
    reference: Reference,
    probes: Sequence[Reference],
) -> BuiltVariant:
    session = Session(graph)
    reached = min(snr([p.outputs], [session.run(p.inputs, list(p.outputs))]) for p in probes)
    minimum = precision.selftest_minimum(form.dtype, form.compute, verdict, reached)
    return BuiltVariant(form, graph, verdict, minimum, peak_activations(graph, reference.inputs))


def _optimised(model: Model, variant: BuiltVariant, probes: Sequence[Reference]) -> BuiltVariant:
    """With a graph for WASM, unless that is of no use; then an event says why."""
    if "wasm" not in variant.form.devices:
        return variant
    try:
        made = offline.optimise(variant.ir, [probe.inputs for probe in probes])
    except UnsupportedError as error:
        said = f"WASM reads the graph as it is, not optimised ahead: {error.why}"
        model.event("info", variant.form.name, said)
        return variant
    return replace(variant, optimised=made)


def _finish(post: ir.Model, values: Sequence[Tensors]) -> Finish:
    """The stage behind the model, on the inputs of its own that each reference has."""
    session = Session(post)

    def finish(index: int, outputs: Outputs) -> Tensors:
        return session.run({**values[index], **outputs})

    return finish
