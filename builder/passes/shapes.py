"""Types and shapes of all values, by onnx's inference; the signature stays as declared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from builder.passes.base import Pass, weights_of

BIG_BYTES = 1024
"""Weights above this are never axes or shapes, so inference doesn't get their content."""


class InferShapes(Pass):
    """Write down the type and shape of every value as far as onnx's inference finds them.

    What it contradicts is left as it was: the checker decides about that.
    """

    step = "infer shapes"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Infer, with propagation of shape data through the graph."""
        with _without_content(model):
            proto = ir.to_proto(model)
        try:
            found = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        except Exception as error:  # onnx's C++ classes; inference is an aid, not a condition
            self.event("warning", f"shape inference fails: {str(error).strip()}")
            return ir.passes.PassResult(model, False)
        inferred = ir.from_proto(found)
        modified = False
        for old, new in zip(model.graphs(), inferred.graphs(), strict=True):
            types = {value.name: value for node in new for value in node.outputs if value.name}
            for node in old:
                for value in node.outputs:
                    if value.name in types and not value.is_graph_output():
                        modified |= _merge(value, types[value.name])
        return ir.passes.PassResult(model, modified)


def _merge(value: ir.Value, found: ir.Value) -> bool:
    modified = False
    if value.type is None and found.type is not None:
        value.type = found.type
        modified = True
    if found.shape is not None and value.shape != found.shape and value.type == found.type:
        value.shape = found.shape.copy()
        modified = True
    return modified


@contextmanager
def _without_content(model: ir.Model) -> Iterator[None]:
    """For a while, big weights are references to a file that nobody opens."""
    held = [(v, v.const_value) for v in weights_of(model)]
    try:
        for value, tensor in held:
            if tensor is not None and tensor.nbytes > BIG_BYTES:
                shape = ir.Shape(tensor.shape.numpy())
                value.const_value = ir.ExternalTensor(
                    "weights", 0, tensor.nbytes, tensor.dtype, shape=shape, name=value.name or ""
                )
        yield
    finally:
        for value, tensor in held:
            value.const_value = tensor
