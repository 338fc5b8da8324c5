"""Opt-in passes that make weights lighter on the wire, each under the gate of every dtype.

Each dtype is first made as it is without them. Then a pass is applied to the fp32 graph: to all
large layers, and where the gate fails, with the layers that add most noise left as they were, half
as many again each time. A graph that holds is converted, and judged again in its form. The dtype
takes it over if it is smaller on the wire; else the pass is dropped, with its reason, and what
there was without it ships. References are those of the original model throughout.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias

import onnx_ir as ir

from builder.errors import ConversionError, UnsupportedError
from builder.model import Event
from builder.precision import cluster, large, prune
from builder.precision.activations import Activations, Float
from builder.precision.forms import ANY, Converted, Form
from builder.precision.gate import Demand, Outcome, Step, Trial, make
from builder.precision.retreat import Retreat
from builder.precision.subject import Subject
from builder.recipe import VariantName

SAVES = 0.97
"""A variant is taken over if it is at most this share of the one without the pass, on the wire."""

TRIES = 3
"""Forms that are converted before a pass is dropped: rounding takes minutes on a large model."""

HELD_TO: Mapping[VariantName, VariantName] = {"fp32": "fp16"}
"""Nothing lossy holds fp32's own tolerance, which is there to prove that a graph is the same: as
the variant with the most bits it is held to what fp16 is."""

Put: TypeAlias = Callable[[ir.Graph, Activations], None]
"""Stores one layer in a copy of the graph."""


@dataclass(frozen=True)
class Pass:
    """A row of `PASSES`.

    Attributes:
        name: Of the recipe's field and the flag.
        done: What a layer is then, in words, with a place for the figure asked for.
        layer: From a layer and the figure to what puts it into a graph.
        dtypes: What it can make smaller, and why not the others.
        spared: Why the others are left as they are.
    """

    name: str
    done: str
    layer: Callable[[large.Large, float], Put]
    dtypes: frozenset[VariantName]
    spared: str = ""


def _prune(layer: large.Large, share: float) -> Put:
    array = layer.shaped(prune.pruned(layer.matrix, share, layer.gram))
    return partial(_put_pruned, layer, array)


def _put_pruned(layer: large.Large, array: Float, graph: ir.Graph, known: Activations) -> None:
    prune.store(graph, layer, array, known)


def _cluster(layer: large.Large, count: float) -> Put:
    made = cluster.clustered(layer.matrix, int(count), layer.gram)
    return partial(_put_clustered, layer, made)


def _put_clustered(
    layer: large.Large, made: cluster.Clustered, graph: ir.Graph, known: Activations
) -> None:
    cluster.store(graph, layer, made, known)


PASSES = (
    Pass("prune", "{:.0%} 0", _prune, frozenset(("fp32", "fp16", "int8", "q4", "q4f16"))),
    Pass(
        "cluster",
        "of {:.0f} values",
        _cluster,
        frozenset(("fp32", "fp16", "int8")),
        "4 bits are fewer than an index has",
    ),
)
"""In the order in which they are applied: clustering keeps zeros."""


@dataclass(frozen=True)
class Passed:
    """What became of one pass for one dtype.

    Attributes:
        name: Of the pass.
        asked: The figure that the recipe gives.
        kept: Whether the dtype is made with it.
        fits: Whether the pass can make the dtype smaller at all.
        reason: Why, in a sentence.
        layers: How many it was applied to in the end, of how many large ones.
        before, after: Bytes of the dtype's first form: raw, and compressed by estimate; `after` is
            what was reached last, and (0, 0) where nothing was.
        steps: Every attempt on the fp32 graph.
    """

    name: str
    asked: float
    kept: bool
    reason: str
    layers: tuple[int, int] = (0, 0)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)
    steps: tuple[Step, ...] = ()
    fits: bool = True


@dataclass(frozen=True)
class Lighter:
    """A dtype after its passes.

    Attributes:
        subject: What its other forms are made from.
        outcome: Of its first form.
        passed: What became of each pass that was asked for.
    """

    subject: Subject
    outcome: Outcome
    passed: tuple[Passed, ...]


class _Applied:
    """One pass on one subject: each layer is worked on once, whatever is tried."""

    def __init__(self, subject: Subject, step: Pass, asked: float) -> None:
        self._subject = subject
        self._put = {
            layer.name: step.layer(layer, asked)
            for layer in large.find(subject.ir.graph, subject.activations)
        }
        form = Form("fp32", "float32", ANY, self.convert)
        self.layers = tuple(self._put)
        self.retreat = Retreat(subject, form, Converted(subject.ir, self.layers))

    def convert(self, subject: Subject, wider: frozenset[str]) -> Converted:
        copy = subject.ir.clone()
        for name, put in self._put.items():
            if name not in wider:
                put(copy.graph, subject.activations)
        copy.graph.sort()
        return Converted(copy, self.layers)


class Ladder:
    """Makes dtypes lighter; what is measured on a model is measured once for all of them.

    Args:
        subject: The model as it is.
        asked: Figures of passes by name; see `PASSES`.
    """

    def __init__(self, subject: Subject, asked: Mapping[str, float]) -> None:
        self._subject, self._asked = subject, asked
        self._applied = cache(_Applied)

    def climb(self, form: Form, demand: Demand, plain: Outcome) -> Lighter:
        """Apply every pass that was asked for to one dtype.

        Args:
            form: The first of its dtype.
            demand: What the dtype must reach with them, as `HELD_TO` has it; sizes on the wire are
                asked for.
            plain: What became of the form without any pass.
        """
        found = Lighter(self._subject, plain, ())
        for step in PASSES:
            asked = self._asked.get(step.name)
            if asked is None or plain.ir is None:
                continue
            if form.dtype in step.dtypes:
                found = self._apply(step, asked, form, demand, found)
            else:
                reason = f"Left as it is: {step.spared}"
                spared = Passed(step.name, asked, False, reason, fits=False)
                found = replace(found, passed=(*found.passed, spared))
        return found

    def _apply(self, step: Pass, asked: float, form: Form, demand: Demand, now: Lighter) -> Lighter:
        applied = self._applied(now.subject, step, asked)
        trial = Trial(now.subject, replace(form, convert=applied.convert), demand)
        before = now.outcome.size, now.outcome.wire or 0
        kept = partial(Passed, step.name, asked, before=before)
        total, tries, after = len(applied.layers), 0, (0, 0)
        reason = f"No layer has {large.ELEMENTS} weights"
        done = step.done.format(asked)
        for wider in itertools.chain([[]], applied.retreat.rungs()) if total else ():
            count = total - len(wider)
            try:
                graph = applied.convert(now.subject, frozenset(wider)).ir
                verdict, _ = trial.judge(graph, f"{count} of {total} layers {done}")
            except (ConversionError, UnsupportedError) as error:
                reason = f"It can't be run: {error.why}"
                break
            reason = verdict.reason
            if not verdict.passed:
                continue
            subject = now.subject.lighter(graph)
            outcome = make(subject, form, demand)
            if outcome is None or outcome.ir is None:
                reason, tries = outcome.reason if outcome is not None else reason, tries + 1
                if tries == TRIES:
                    break
                continue
            after = outcome.size, outcome.wire or 0
            said = f"{_mb(after[1])} MB on the wire instead of {_mb(before[1])}"
            if after[1] > SAVES * before[1]:
                reason = f"It saves nothing: {said}"
                break
            reason = f"{count} of {total} layers {done}: {said}"
            passed = kept(True, reason, (count, total), after=after, steps=tuple(trial.steps))
            return Lighter(subject, outcome, (*now.passed, passed))
        passed = kept(False, reason, (0, total), after=after, steps=tuple(trial.steps))
        return replace(now, passed=(*now.passed, passed))


def events(form: Form, passed: Passed) -> list[Event]:
    """What became of a pass, in sentences; one that was asked for and dropped is a warning."""
    tried = [
        Event(
            "info",
            passed.name,
            f"{form.dtype}: tried {step.tried}: {_mb(step.wire or 0)} MB of fp32 on the wire, "
            f"{step.verdict.reason}: {'pass' if step.verdict.passed else 'fail'}",
        )
        for step in passed.steps
    ]
    if passed.kept:
        return [*tried, Event("info", passed.name, f"{form.dtype}: {passed.reason}")]
    if not passed.fits:
        return [Event("info", passed.name, f"{form.dtype}: {passed.reason}")]
    return [*tried, Event("warning", passed.name, f"{form.dtype}: dropped. {passed.reason}")]


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"
