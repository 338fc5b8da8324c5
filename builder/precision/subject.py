"""A model on its way to fewer bits, and what was measured on it once for all of its variants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import onnx_ir as ir

from builder.model import Model, Reference
from builder.precision import (
    activations,
    calibration,
    int4,
    int8,
    pointwise,
    products,
    qdq,
    ranges,
)
from builder.precision.activations import Activations
from builder.precision.blocks import Blocks
from builder.precision.ranges import Range
from builder.recipe import CalibrationMethod


class Subject:
    """A model with its references; every measurement is made when it is first asked for.

    Args:
        model: In normal form; never changed.
        references: What variants are judged on; at least one.
        calibration: What ranges and statistics are measured on; the references unless given.
        method: How ranges for static quantization are cut.
        size: Bytes of graph and weights that forms are held against; the model's own unless given.
    """

    def __init__(
        self,
        model: Model,
        references: Sequence[Reference],
        calibration: Sequence[Reference] | None = None,
        method: CalibrationMethod = "minmax",
        size: int | None = None,
    ) -> None:
        self.model = model
        self.references = tuple(references)
        self.calibration = tuple(calibration or references)
        self.method = method
        self._size = size

    def lighter(self, graph: ir.Model) -> Subject:
        """The same model with other weights, still held against this one's references and size."""
        model = Model(graph, self.model.signature, self.model.provenance)
        return Subject(model, self.references, self.calibration, self.method, self.size)

    @property
    def ir(self) -> ir.Model:
        """The graph."""
        return self.model.ir

    @cached_property
    def size(self) -> int:
        """Bytes of graph and weights together."""
        return int(ir.to_proto(self.ir).ByteSize()) if self._size is None else self._size

    @cached_property
    def ranges(self) -> ranges.Ranges:
        """Of activations and of sums inside nodes; see `builder.precision.ranges`."""
        return ranges.measure(self.ir, self.calibration)

    @cached_property
    def activations(self) -> Activations:
        """Statistics of what meets weights; see `builder.precision.activations`."""
        return activations.measure(self.ir, self.calibration)

    @cached_property
    def extents(self) -> dict[str, Range]:
        """Ranges that static quantization rounds in; see `builder.precision.calibration`."""
        names = qdq.values(self.ir.graph)
        return calibration.measure(self.ir, names, self.calibration, self.method)

    @cached_property
    def eighths(self) -> products.Plan:
        """How products and 1x1 convolutions are rounded to 8 bits."""
        plan = products.plan(self.ir.graph, self.activations, int8.INT8_ELEMENTS)
        pointwise.add(plan, self.ir.graph, self.activations, int8.INT8_ELEMENTS)
        return plan

    @cached_property
    def plain_eighths(self) -> products.Plan:
        """The same for activations that aren't smoothed first."""
        return products.plan(self.ir.graph, self.activations, int8.INT8_ELEMENTS, smooth=False)

    @cached_property
    def quarters(self) -> dict[str, Blocks]:
        """How weights are rounded to 4 bits, by name."""
        return int4.plan(self.ir.graph, self.activations)

    @cached_property
    def product_share(self) -> float:
        """Share of the multiplications with weights that `eighths` would do in 8 bits, 0 to 1."""
        covered = total = 0
        for node, operations in activations.operations(self.ir, self.activations):
            total += operations
            weight = node.inputs[1]
            if weight is not None and weight.name in self.eighths.multiplied:
                covered += operations
        return covered / total if total else 0.0
