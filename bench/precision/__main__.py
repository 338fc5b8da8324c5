"""Convert real models to every form, and hold each against fp32 by what its users care for.

    PYTHONPATH=. .venv/bin/python -m bench.precision [--case minilm] [--form int8] [--save DIR]
        [--prune 0.3] [--cluster 64]

Gates are those of the builder: a form that fails keeps its worst layers wider, or is dropped with
its reason. Scores are on held-back data that calibration has not seen. Nor has the gate, but for
what a recipe would name as samples: the lines of the page and the five questions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import onnx_ir as ir
import rich_click as click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.precision import CASES, Case, Together
from bench.precision.case import runner
from builder import passes
from builder.errors import OnnxsiteError
from builder.model import Model, Provenance, Reference, Signature
from builder.precision import (
    FORMS,
    HELD_TO,
    Demand,
    Form,
    Ladder,
    Outcome,
    Passed,
    Subject,
    make,
)
from builder.recipe import CalibrationMethod
from builder.session import Session

METRICS = {
    "minilm": "cosine",
    "ppocr-v4-rec": "text",
    "smollm2-135m": "greedy",
    "whisper-tiny-en-decoder": "wer",
    "efficientnet-lite0": "top1",
}
"""What the gate judges by; signal-to-noise ratio elsewhere."""

Row = list[str] | None
"""Cells of the table."""

GATE = 32
"""Calibration inputs that the gate judges on instead: evenly spaced ones."""


def subject(case: Case, method: CalibrationMethod = "minmax") -> Subject:
    """A case's model in normal form, with references for the gate and inputs to calibrate on.

    Raises:
        OnnxsiteError: The model can't be normalised.
    """
    graph = ir.load(case.model)
    source = Model(graph, Signature.of(graph.graph), Provenance(case.name))
    step = max(1, len(case.calibration) // GATE)
    apart = case.gate(runner(case.model)) if case.gate else []
    judged = apart or case.calibration[::step]
    model = passes.normalise(source, probes=judged[:2])
    session = Session(model.ir)
    references = [Reference(str(i), inputs, session.run(inputs)) for i, inputs in enumerate(judged)]
    rest = [x for index, x in enumerate(case.calibration) if apart or index % step]
    calibration = [Reference(str(index), inputs, {}) for index, inputs in enumerate(rest)]
    return Subject(model, references, calibration or None, method)


def row(
    judged: Together,
    measured: list[Subject],
    form: Form,
    save: Path | None,
    ladders: Sequence[Ladder] = (),
) -> Row:
    """What became of one form: its size, scores and verdict; None where it has no point."""
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    told: list[str] = []
    for index, (case, each) in enumerate(zip(judged.cases, measured, strict=True)):
        demand = Demand(METRICS.get(case.name, "snr"), finish=case.finish, wire=bool(ladders))
        outcome = make(each, form, demand)
        if outcome is None:
            return None
        passed: tuple[Passed, ...] = ()
        if ladders:
            held_to = replace(demand, held_to=HELD_TO.get(form.dtype))
            lighter = ladders[index].climb(form, held_to, outcome)
            outcome, passed = lighter.outcome, lighter.passed
        outcomes.append(outcome)
        told.append(_verdict(outcome, passed))
    seconds = f"{time.perf_counter() - started:.0f}"
    graphs = [outcome.ir for outcome in outcomes if outcome.ir is not None]
    if len(graphs) < len(outcomes):
        reasons = "; ".join(outcome.reason for outcome in outcomes if outcome.ir is None)
        return [judged.name, form.name, "", seconds, "", f"left out: {reasons}"]
    if save is not None:
        for case, graph in zip(judged.cases, graphs, strict=True):
            ir.save(graph, save / f"{case.name}-{form.name}.onnx")
    scores = judged.score([Session(graph).run for graph in graphs])
    shown = ", ".join(f"{name} {value:.5g}" for name, value in scores.items())
    size = f"{sum(outcome.size for outcome in outcomes) / 1e6:.2f}"
    if ladders:
        size += f" ({sum(outcome.wire or 0 for outcome in outcomes) / 1e6:.2f} on the wire)"
    return [judged.name, form.name, size, seconds, shown, "; ".join(told)]


def _verdict(outcome: Outcome, passed: Sequence[Passed]) -> str:
    tried = f"{len(outcome.steps)} tried, " if len(outcome.steps) > 1 else ""
    kept = "".join(f"; {p.name} {'kept' if p.kept else 'dropped'}: {p.reason}" for p in passed)
    return tried + outcome.reason + kept


@click.command()
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)))
@click.option("--form", "forms", multiple=True, type=click.Choice([f.name for f in FORMS]))
@click.option("--calibration-method", "method", type=click.Choice(get_args(CalibrationMethod)))
@click.option("--save", type=click.Path(path_type=Path, file_okay=False))
@click.option("--prune", type=float, help="Share of each large layer that becomes 0.")
@click.option("--cluster", type=int, help="Values that each large layer has.")
def main(
    cases: tuple[str, ...],
    forms: tuple[str, ...],
    method: CalibrationMethod | None,
    save: Path | None,
    prune: float | None,
    cluster: int | None,
) -> None:
    """Measure CASES in FORMS; all of both unless some are named.

    With PRUNE or CLUSTER name the first form of each type: the others share its weights.
    """
    given = {"prune": prune, "cluster": cluster}
    asked = {name: figure for name, figure in given.items() if figure is not None}
    console = Console(width=220)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
    for name in cases or CASES:
        table = Table("model", "form", "MB", "s", "score on held-back data", "verdict", box=None)
        case = CASES[name]()
        judged = case if isinstance(case, Together) else Together.alone(case)
        try:
            measured = [subject(part, method or "minmax") for part in judged.cases]
        except OnnxsiteError as error:
            console.print(f"{name}: {error}", markup=False)
            continue
        ladders = [Ladder(each, asked) for each in measured] if asked else []
        for form in FORMS:
            if forms and form.name not in forms:
                continue
            found = row(judged, measured, form, save, ladders)
            if found is not None:
                table.add_row(*map(escape, found))
        console.print(table)


if __name__ == "__main__":
    main()
