"""Make a form of a variant, prove that it is valid and right, repair it, or say why it isn't
shipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import brotli
import numpy as np
import onnx_ir as ir

from builder.errors import ConversionError, UnsupportedError
from builder.model import Event, Tensors, Verdict
from builder.passes.check import validate
from builder.precision.forms import Converted, Form
from builder.precision.fp16 import Kept
from builder.precision.metrics import METRICS, Metric, Outputs, max_abs_error, snr
from builder.precision.retreat import Retreat
from builder.precision.subject import Subject
from builder.recipe import VariantName
from builder.session import Session

WORTH = 0.9
"""A variant with fewer bits must be smaller than this share of the fp32 graph, or it saves nothing
that a visitor would notice."""

Finish = Callable[[int, Outputs], Tensors]
"""From the index of a reference and the model's outputs, to what a visitor is shown."""


@dataclass(frozen=True)
class Demand:
    """What a variant must reach.

    Attributes:
        metric: A key of `METRICS`.
        tolerance: What the metric must reach; None for the metric's default for the dtype.
        max_error: Largest root mean square of the error of any output, as a share of the output's
            own; None for no limit of its own.
        max_size: Largest graph and weights in bytes; None for no limit.
        held_to: The dtype whose default tolerance and SNR floor apply; None for the form's own.
        wire: Whether sizes on the wire are estimated as well.
        finish: Run on the outputs before a metric of results measures; None for as they are.
    """

    metric: str
    tolerance: float | None = None
    max_error: float | None = None
    max_size: int | None = None
    held_to: VariantName | None = None
    wire: bool = False
    finish: Finish | None = None


@dataclass(frozen=True)
class Step:
    """One attempt: what was tried, and what came of it.

    Attributes:
        tried: In words.
        size: Bytes of graph and weights.
        verdict: Of the gate.
        wire: Bytes when compressed, estimated by `on_the_wire`; None where that isn't asked for.
    """

    tried: str
    size: int
    verdict: Verdict
    wire: int | None = None


def on_the_wire(content: bytes) -> int:
    """Bytes that a visitor would download, estimated: brotli at its fastest.

    A site's own compression is stronger: 2 % smaller for weights in 16 bits, 5 % for pruned and
    clustered ones (EfficientNet-Lite0, measured), but takes a hundred times as long.
    """
    return len(brotli.compress(content, quality=1, lgwin=24))


@dataclass(frozen=True)
class Outcome:
    """What became of one form.

    Attributes:
        form: Which.
        ir: The graph, or None if it is dropped.
        verdict: What the gate measured last; None if it never came to that.
        reason: One sentence for people: why it ships or why not.
        size: Bytes of graph and weights; 0 if there is no graph.
        events: What the conversion changed or left, and why.
        steps: Every attempt.
        kept: Nodes that stay in fp32 by measurement.
        wire: Bytes when compressed, estimated; None where that isn't asked for.
    """

    form: Form
    ir: ir.Model | None
    verdict: Verdict | None
    reason: str
    size: int = 0
    events: tuple[Event, ...] = ()
    steps: tuple[Step, ...] = ()
    kept: tuple[Kept, ...] = ()
    wire: int | None = None


@dataclass
class Trial:
    """Judges graphs of one form, and remembers how they did.

    Size and validity are those of the graph that ships; what it computes in half is emulated.

    Attributes:
        subject: The model that they are made from.
        form: Which.
        demand: What they must reach.
        steps: What was judged so far.
    """

    subject: Subject
    form: Form
    demand: Demand
    steps: list[Step] = field(default_factory=list)

    def judge(self, graph: ir.Model, tried: str) -> tuple[Verdict, int]:
        """Check and run a graph: the verdict, and bytes of graph and weights.

        Raises:
            ConversionError: The graph is invalid.
            UnsupportedError: It can't be run.
        """
        validate(graph, self.subject.model.signature)
        content = ir.to_proto(graph).SerializeToString(deterministic=True)
        session, weighs = Session(content), len(content)
        wire = on_the_wire(content) if self.demand.wire else None
        del content  # the session has a copy of its own
        references = self.subject.references
        if self.form.compute == "float16":
            session.run(references[0].inputs)  # the graph that ships can be run as well
            session = self.form.session(graph)
        verdict = judge(
            self.demand.held_to or self.form.dtype,
            [reference.outputs for reference in references],
            list(session.each(reference.inputs for reference in references)),
            self.demand,
        )
        self.steps.append(Step(tried, weighs, verdict, wire))
        return verdict, weighs

    def oversize(self, bytes_: int) -> str:
        """Why a size is no use; "" if it is."""
        if self.form.dtype != "fp32" and bytes_ > WORTH * self.subject.size:
            share = 100 * bytes_ / self.subject.size
            return f"It saves nothing: {share:.0f} % of the size of fp32"
        limit = self.demand.max_size
        if limit is not None and bytes_ > limit:
            return f"It has {bytes_ / 1e6:.1f} MB, asked for at most {limit / 1e6:.1f} MB"
        return ""


def make(subject: Subject, form: Form, demand: Demand) -> Outcome | None:
    """Convert, check, judge and, where the gate fails, repair one form.

    The repair is a ladder: the error of each layer is measured, and the worst are kept in a wider
    type until the gate holds or nothing is saved any more. Never ships an invalid or wrong graph,
    never fails.

    Returns:
        The graph, or the reason why there is none; None where the form has no point for the model.
    """
    trial = Trial(subject, form, demand)
    events: tuple[Event, ...] = ()

    def dropped(reason: str, verdict: Verdict | None = None) -> Outcome:
        return Outcome(form, None, verdict, reason, 0, events, tuple(trial.steps))

    try:
        made = form.convert(subject, frozenset())
        if made is None:
            return None
        events = made.events
        verdict, weighs = trial.judge(made.ir, "everything that can be")
        if not verdict.passed and not trial.oversize(weighs):
            made, verdict, weighs = _repaired(trial, made, verdict, weighs)
            events = (*made.events, *_told(trial))
    except (ConversionError, UnsupportedError) as error:
        return dropped(f"It can't be converted: {error.why}")
    if too_large := trial.oversize(weighs):
        return dropped(too_large, verdict)
    if not verdict.passed:
        return dropped(verdict.reason, verdict)
    wire = next(step.wire for step in reversed(trial.steps) if step.verdict is verdict)
    return Outcome(
        form, made.ir, verdict, verdict.reason, weighs, events, tuple(trial.steps), made.kept, wire
    )


def _repaired(
    trial: Trial, made: Converted, verdict: Verdict, weighs: int
) -> tuple[Converted, Verdict, int]:
    """The first rung of the ladder that passes, or the last one that still saves something."""
    retreat, total = Retreat(trial.subject, trial.form, made), len(made.layers)
    for wider in retreat.rungs():
        attempt = trial.form.convert(trial.subject, frozenset(wider))
        if attempt is None:
            break
        tried = f"the {len(wider)} most sensitive of {total} layers wider"
        result, size_now = trial.judge(attempt.ir, tried)
        if trial.oversize(size_now):
            break
        made, verdict, weighs = attempt, result, size_now
        if verdict.passed:
            break
    return made, verdict, weighs


def _told(trial: Trial) -> list[Event]:
    return [
        Event(
            "info",
            trial.form.name,
            f"tried {step.tried}: {step.size / 1e6:.1f} MB, {step.verdict.reason}: "
            f"{'pass' if step.verdict.passed else 'fail'}",
        )
        for step in trial.steps
    ]


def judge(
    dtype: VariantName, expected: Sequence[Outputs], results: Sequence[Outputs], demand: Demand
) -> Verdict:
    """Compare runs of a variant with the references.

    Args:
        dtype: Whose default tolerance and SNR floor apply.
        expected: Outputs of the references.
        results: Outputs of the variant on the same inputs.
        demand: What is asked for.
    """
    metric: Metric = METRICS[demand.metric]
    finite = all(map(_as_finite, expected, results))
    asked = metric.tolerance[dtype] if demand.tolerance is None else demand.tolerance
    ratio = snr(expected, results)
    seen, shown = expected, results
    if metric.of_results and demand.finish is not None:
        seen = [demand.finish(index, outputs) for index, outputs in enumerate(expected)]
        shown = [demand.finish(index, outputs) for index, outputs in enumerate(results)]
    value = metric.measure(seen, shown)
    floor = metric.snr_floor[dtype] if metric.name != "snr" else -math.inf
    if demand.max_error is not None:
        floor = max(floor, -20 * math.log10(max(demand.max_error, 1e-10)))
    reason = f"{metric.label} {metric.show(value)}, asked for {metric.show(asked)}"
    if finite and value >= asked and ratio < floor:
        reason += f", but outputs agree to {ratio:.1f} dB only, asked for {floor:.0f} dB"
    if not finite:
        reason += ", but values overflow: outputs aren't finite where fp32's are"
    return Verdict(
        metric=metric.name,
        value=value,
        tolerance=asked,
        passed=value >= asked and ratio >= floor and finite,
        reason=reason[0].upper() + reason[1:],
        max_abs_error=max_abs_error(expected, results),
        snr=ratio,
    )


def _as_finite(expected: Outputs, results: Outputs) -> bool:
    """Whether all that is finite in a reference is finite in the other run, where shapes agree."""
    return all(
        np.isfinite(got[np.isfinite(array)]).all()
        for name, array in expected.items()
        if array.dtype.kind == "f"
        and (got := results.get(name)) is not None
        and got.shape == array.shape
    )
