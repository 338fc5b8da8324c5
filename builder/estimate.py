"""Estimate the memory that a run needs, from shapes alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import onnx_ir as ir

from builder.model import Array


def peak_activations(model: ir.Model, inputs: Mapping[str, Array]) -> int:
    """Bytes of the largest set of activations that live at the same time.

    Walks the nodes in order; a value lives from its node to its last reader. Symbolic dimensions
    take their extent from `inputs`; a value whose shape stays unknown counts as nothing, so this
    is a lower bound.
    """
    extents = _extents(model, inputs)
    nodes = list(model.graph)
    last: dict[ir.Value, int] = {}
    for index, node in enumerate(nodes):
        for value in node.inputs:
            if value is not None:
                last[value] = index
    last.update((value, len(nodes)) for value in model.graph.outputs)
    live = {value: _bytes(value, extents) for value in model.graph.inputs}
    peak = sum(live.values())
    for index, node in enumerate(nodes):
        live.update((value, _bytes(value, extents)) for value in node.outputs)
        peak = max(peak, sum(live.values()))
        live = {value: size for value, size in live.items() if last.get(value, -1) > index}
    return peak


def _extents(model: ir.Model, inputs: Mapping[str, Array]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for value in model.graph.inputs:
        array = inputs.get(value.name or "")
        if array is None or value.shape is None:
            continue
        for dim, extent in zip(value.shape, array.shape, strict=True):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                extents[str(dim.value)] = extent
    return extents


def _bytes(value: ir.Value, extents: Mapping[str, int]) -> int:
    if value.shape is None or value.dtype is None:
        return 0
    dims = [dim if isinstance(dim, int) else extents.get(str(dim.value), 0) for dim in value.shape]
    return int(prod(dims) * value.dtype.itemsize)
