"""Decide which nodes compute in half, and say why the others don't."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from builder.passes.base import constant, nodes_of
from builder.precision import fused
from builder.precision import half_ops as ops
from builder.precision.bodies import links
from builder.precision.half_types import (
    allowed,
    counts,
    exempt,
    has_bodies,
    has_floats,
    is_float,
    masked,
)
from builder.precision.ranges import HALF_MAX, LIMIT, Range, Ranges

SMALLEST_NORMAL = 2.0**-14
"""6.1e-5: below it half loses bits, and a GPU may flush to 0."""

SMALLEST = 2.0**-24
"""6.0e-8, half's smallest number: an epsilon attribute below it would become 0."""

EXACT_INTEGERS = 2048.0
"""Integers up to 2^11 are exact in half."""

MASK = -HALF_MAX / 4
"""What a mask of -1e12 or -inf becomes: exp() of it is 0 all the same, and three masks and the
scores can be added without leaving half. (At -65504 the first negative score would overflow.)"""

MASKED_SCORES = HALF_MAX / 8
"""Scores beside a mask must stay below this, so that the mask is still far below them."""


MOVES = "only move fp32 values"
FOLDED = "undo the storage of weights while the session is made"
SENSITIVE = "in half the accuracy gate fails"
EDGES = "what goes in and out of a body is fp32, as that of the graph"
UNSEEN = "inside a body that no reference runs, or that can't be watched"
ALONE = "doesn't compile in half on WebGPU, unless as part of a convolution"
EPSILON = "an epsilon would be lost in half"
AFTER_EPSILON = "reads what an epsilon was just added to"


@dataclass
class Plan:
    """What to do.

    Attributes:
        half: Nodes that compute in half.
        kept: The other nodes that read or give floats: a category and a detail for each.
        masked: Values that run into a Softmax only, and whose overflow below is harmless.
    """

    half: set[ir.Node] = field(default_factory=set)
    kept: dict[ir.Node, tuple[str, str]] = field(default_factory=dict)
    masked: set[ir.Value] = field(default_factory=set)


def plan(model: ir.Model, ranges: Ranges, wider: frozenset[str] = frozenset()) -> Plan:
    """Decide node by node, in the order of the graph.

    Args:
        model: In normal form, or with weights stored in 8 or 4 bits: types of values are known,
            names unique.
        ranges: Of the fp32 activations.
        wider: Names of nodes that stay in fp32 whatever their ranges are.
    """
    guarded: dict[ir.Value, float] = {}
    while True:
        result = _decided(model, ranges, wider, guarded)
        edges = [pair for node in nodes_of(model) for pair in links(node)]
        # The next iteration of a loop may divide by what this one gives.
        passed = {to: guarded[of] for of, to in edges if of in guarded and to not in guarded}
        if not passed:
            return result
        guarded.update(passed)


def _decided(
    model: ir.Model, ranges: Ranges, wider: frozenset[str], guarded: dict[ir.Value, float]
) -> Plan:
    """One round; adds to `guarded` what an epsilon shows in."""
    result = Plan(masked={value for graph in model.graphs() for value in masked(graph)})
    opset = model.opset_imports.get("", 1)
    natively_half: set[ir.Value] = set()
    folded: set[ir.Value] = set()
    exact = counts(model)
    for node in nodes_of(model):
        if not has_floats(node) or node.op_type in ops.NEUTRAL:
            continue
        reason = (
            _by_constancy(node, folded)
            or _forced(node, wider)
            or _by_counts(node, exact)
            or _by_kind(node, opset)
            or _by_shader(node, result.half)
            or _by_weights(node, opset, result.masked)
            or _by_range(node, ranges, result.masked)
            or (_by_place(node, ranges) if node.graph is not model.graph else None)
            or _by_epsilon(node, guarded)
            or _by_source(node, natively_half)
        )
        smallest = _smallest(node, guarded) if reason else None
        if smallest is not None and smallest < SMALLEST_NORMAL:
            guarded.update(dict.fromkeys(node.outputs, smallest))
        if reason:
            result.kept[node] = reason
        else:
            result.half.add(node)
            natively_half.update(value for value in node.outputs if is_float(value))
    _follow_readers(model.graph, result, opset)
    return result


def _by_constancy(node: ir.Node, folded: set[ir.Value]) -> tuple[str, str] | None:
    """What depends on weights only is computed once, exactly, and rounded at its end."""
    inputs = [value for value in node.inputs if value is not None]
    if not inputs or not all(constant(v) is not None or v in folded for v in inputs):
        return None
    folded.update(node.outputs)
    return FOLDED, ""


def _forced(node: ir.Node, wider: frozenset[str]) -> tuple[str, str] | None:
    return (SENSITIVE, "") if node.name in wider else None


def _by_kind(node: ir.Node, opset: int) -> tuple[str, str] | None:
    known = all(value.type is not None for value in (*node.inputs, *node.outputs) if value)
    if (node.domain, node.op_type) in ops.CONTRIB:
        return None if known else ("its types are unknown", "")
    if node.domain != "":
        return f"operator of {node.domain}", ""
    if has_bodies(node):
        return EDGES, ""
    if node.op_type == "Cast":
        return _by_cast(node)
    if node.op_type not in ops.COMPUTE | ops.MOVERS:
        return "not exact or not available in half", ""
    if not known:
        return "its types are unknown", ""
    if node.op_type in ops.NO_3D and _rank(node) > 4:
        return "three spatial dimensions don't compile in half on WebGPU", ""
    if node.op_type == "LayerNormalization" and len(node.outputs) > 1:
        return "its statistics are fp32 outputs", ""
    if not allowed(node, opset):
        return "its definition doesn't allow half", ""
    return None


def _by_shader(node: ir.Node, half: set[ir.Node]) -> tuple[str, str] | None:
    """What doesn't compile in half alone needs a convolution in half that does it too."""
    if node.op_type not in ops.NO_SHADER or node.domain != "" or node.inputs[0] is None:
        return None
    producer = node.inputs[0].producer() if node.op_type in ops.FUSED else None
    if producer is not None and producer.op_type == "Conv" and producer in half:
        output = fused.behind(producer).output
        return (ALONE, "") if output is not node.outputs[0] else None
    return ALONE, ""


def _rank(node: ir.Node) -> int:
    """Rank of what a node works on: its input's or, where that is unknown, its filters'."""
    for value in node.inputs[:2]:
        if value is not None and value.shape is not None:
            return len(value.shape)
    return 0


def _by_cast(node: ir.Node) -> tuple[str, str] | None:
    source = node.inputs[0]
    if not is_float(node.outputs[0]):
        return "gives other types, so reads full precision", ""
    if source is None or source.dtype is None or source.dtype.is_floating_point():
        return "a typed boundary", ""
    return None


def _by_weights(node: ir.Node, opset: int, masked: set[ir.Value]) -> tuple[str, str] | None:
    spared = exempt(node, opset)
    for index, value in enumerate(node.inputs):
        tensor = constant(value)
        if tensor is None or not is_float(value) or index in spared:
            continue
        array = np.abs(tensor.numpy())
        peak = float(np.max(array, initial=0.0))
        if not peak <= HALF_MAX:
            if node.outputs[0] in masked and float(np.max(tensor.numpy())) <= MASKED_SCORES:
                continue
            return "a weight is beyond half's range", f"{peak:.3g}"
        if 0 < peak < SMALLEST_NORMAL:
            return EPSILON, f"{peak:.3g}"
    return None


def _by_range(node: ir.Node, ranges: Ranges, masked: set[ir.Value]) -> tuple[str, str] | None:
    into_mask = node.outputs[0] in masked
    for value in (*node.inputs, *node.outputs):
        if value is None or constant(value) is not None or value.name is None:
            continue
        found = ranges.values.get(value.name)
        if found is None or not (is_float(value) or node.op_type == "Cast"):
            continue
        if not is_float(value) or node.op_type == "Cast":
            if found.peak > EXACT_INTEGERS:
                return "integers above 2048 aren't exact in half", f"{found.peak:.3g}"
            continue
        if (into_mask or value in masked) and _only_mask(found):
            continue
        if found.peak > LIMIT:
            return f"values reach more than half of {HALF_MAX:.0f}", f"{found.peak:.3g}"
        if 0 < found.peak < SMALLEST_NORMAL:
            return "values stay below half's normal numbers", f"{found.peak:.3g}"
    inner = ranges.inner.get(node.name or "", 0.0)
    if inner > LIMIT:
        return f"sums inside reach more than half of {HALF_MAX:.0f}", f"{inner:.3g}"
    return None


def _by_place(node: ir.Node, ranges: Ranges) -> tuple[str, str] | None:
    """Inside a body only what was measured may be half."""
    for value in (*node.inputs, *node.outputs):
        if value is None or constant(value) is not None:
            continue
        read = is_float(value) or node.op_type == "Cast"
        if read and value.name not in ranges.values:
            return UNSEEN, ""
    return None


def _only_mask(found: Range) -> bool:
    """Whether a range leaves half below only, and its other end is that of ordinary scores."""
    return found.high <= MASKED_SCORES


def _by_epsilon(node: ir.Node, guarded: dict[ir.Value, float]) -> tuple[str, str] | None:
    if "epsilon" in node.attributes:
        epsilon = node.attributes["epsilon"].as_float()
        if 0 < epsilon < SMALLEST:
            return "an epsilon would become 0 in half", f"{epsilon:.3g}"
    careful = node.op_type in ops.EPSILON_FOLLOWERS | ops.MOVERS
    if careful and any(value in guarded for value in node.inputs):
        return AFTER_EPSILON, ""
    return None


def _smallest(node: ir.Node, guarded: dict[ir.Value, float]) -> float | None:
    """As how small an epsilon shows in what a node gives: moves keep it, roots make it larger."""
    found = [epsilon for value in node.inputs if (epsilon := _epsilon(value)) is not None]
    if node.op_type in ops.MOVERS | {"Sqrt", "Pow"}:
        roots = {"Sqrt": 0.5}.get(node.op_type, 1.0)
        found += [guarded[value] ** roots for value in node.inputs if value in guarded]
    return min(found, default=None)


def _epsilon(value: ir.Value | None) -> float | None:
    tensor = constant(value)
    if tensor is None or not is_float(value) or tensor.size == 0:
        return None
    peak = float(np.max(np.abs(tensor.numpy())))
    return peak if 0 < peak < SMALLEST_NORMAL else None


def _by_counts(node: ir.Node, exact: set[ir.Value]) -> tuple[str, str] | None:
    if any(value in exact for value in node.outputs):
        return "counts that must be exact", ""
    return None


def _by_source(node: ir.Node, natively_half: set[ir.Value]) -> tuple[str, str] | None:
    """A mover follows what it moves."""
    if node.op_type not in ops.MOVERS:
        return None
    for value in node.inputs:
        if is_float(value) and constant(value) is None and value not in natively_half:
            return MOVES, ""
    return None


def _follow_readers(graph: ir.Graph, result: Plan, opset: int) -> None:
    """What only moves a weight (the `Transpose` of a tied table) is half where all its readers are:
    else the weight would be stored twice, in fp32 for it and in half for those that read it too.
    """
    for node in graph:
        source = node.inputs[0] if node.inputs else None
        if node.op_type not in ops.MOVERS or constant(source) is None or not is_float(source):
            continue
        readers = [use for value in node.outputs for use in value.uses()]
        if (
            result.kept.get(node, ("",))[0] == FOLDED
            and not any(value.is_graph_output() for value in node.outputs)
            and all(user in result.half and at not in exempt(user, opset) for user, at in readers)
            and _by_weights(node, opset, result.masked) is None
        ):
            del result.kept[node]
            result.half.add(node)
