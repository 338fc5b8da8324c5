"""Normal form: the graph that every later step can rely on.

After `normalise`: weights are initializers of the main graph, stored once and not listed as inputs;
nodes and values have unique names; what is constant is folded; opset and IR version suit the web
runtime; types and shapes are written down; the signature is untouched and unused inputs are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir
from onnx_ir.passes import common

from builder.errors import ConversionError, UnsupportedError
from builder.model import Array, Model
from builder.passes.base import Telling
from builder.passes.check import Checker, validate
from builder.passes.clean import (
    ClearNotes,
    DropZeroPoints,
    InlineFunctions,
    RemoveIdentities,
    RemoveUnused,
    UnlistWeights,
)
from builder.passes.dedup import DeduplicateWeights
from builder.passes.fold import FoldConstants
from builder.passes.fuse import FuseTransformers
from builder.passes.lift import LiftConstants, LiftSubgraphWeights
from builder.passes.naming import NameEverything
from builder.passes.opset import ClampIR, ClampOpset
from builder.passes.shapes import InferShapes
from builder.passes.turned import DeduplicateTransposed

STEPS: tuple[Callable[[], ir.passes.PassBase], ...] = (
    InlineFunctions,
    ClampIR,  # first: in IR version 3 weights must be listed as inputs
    UnlistWeights,
    common.TopologicalSortPass,
    NameEverything,
    LiftConstants,
    LiftSubgraphWeights,
    ClampOpset,
    NameEverything,  # the opset converter adds nodes, constants among them
    LiftConstants,
    RemoveIdentities,
    DropZeroPoints,
    FoldConstants,
    FuseTransformers,
    DeduplicateWeights,
    DeduplicateTransposed,
    RemoveUnused,
    NameEverything,
    ClearNotes,
    InferShapes,
)
"""In order. Each one starts from a graph that the ones before it left valid."""


def normalise(model: Model, *, probes: Sequence[Mapping[str, Array]] | None = None) -> Model:
    """Bring a model into normal form; the given model isn't changed.

    After each pass that changed the graph, its signature and outputs are compared with the
    original's on onnxruntime's CPU provider (`builder.passes.check`). A pass whose result differs
    is undone, with a warning.

    Args:
        model: As a source gives it; nothing but the order of its nodes is changed.
        probes: Inputs to compare on, besides seeded random ones at several shapes.

    Returns:
        A new model, with events added; weights that were in files of their own are in memory.

    Raises:
        UnsupportedError: The opset is too new for the web runtime and can't be converted.
        ConversionError: The graph is invalid even so.
    """
    model.ir.graph.sort()  # else it can't be cloned
    graph = ir.external_data.load_to_model(model.ir.clone())
    result = Model(graph, model.signature, model.provenance, list(model.events))
    checker = Checker(result, probes or ())
    if checker.unchecked:
        result.event("warning", "normal form", f"outputs aren't compared: {checker.unchecked}")
    if checker.random_outputs:
        names = ", ".join(sorted(checker.random_outputs))
        result.event("info", "normal form", f"drawn at random in every run, not compared: {names}")
    for step in STEPS:
        _apply(step(), result, checker)
    try:
        validate(result.ir, result.signature)
    except ConversionError as error:
        raise ConversionError(
            error.what, error.why, "Run onnx.checker.check_model on the source, and repair it."
        ) from error
    return result


def _apply(step: ir.passes.PassBase, model: Model, checker: Checker) -> None:
    """Run one pass on a copy, and take the copy over if it is still the same function."""
    name = step.step if isinstance(step, Telling) else type(step).__name__
    candidate = model.ir.clone()
    try:
        done = step(candidate)
    except UnsupportedError:
        raise
    except Exception as error:  # a pass that fails on an odd graph costs an optimisation, no more
        cause = error.__cause__ or error
        model.event("warning", name, f"undone: it fails ({type(cause).__name__}: {cause})")
        return
    candidate = done.model
    fault = checker.fault(candidate) if done.modified else ""
    if fault:
        model.event("warning", name, f"undone: {fault}")
        return
    if isinstance(step, Telling):
        for event in step.events:
            model.event(event.level, event.step, event.message)
    model.ir = candidate
