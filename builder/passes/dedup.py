"""Weights with the same bytes are stored once; for transposed ones see `builder.passes.turned`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import onnx_ir as ir

from builder.passes.base import Pass, is_edge


class DeduplicateWeights(Pass):
    """Let all readers of equal initializers of one graph read the first of them.

    Equal means dtype, shape and bytes: 0.0 and -0.0 differ, two NaNs of the same bits don't.
    (onnx_ir's own pass hashes through the buffer protocol, which strings, bfloat16 and 4-bit
    tensors and transposed arrays don't support.)
    """

    step = "deduplicate weights"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Compare by SHA-256, so no content is held twice."""
        saved = count = 0
        for graph in model.graphs():
            first: dict[Hashable, ir.Value] = {}
            for name, value in tuple(graph.initializers.items()):
                tensor = value.const_value
                if tensor is None or is_edge(value):
                    continue
                keep = first.setdefault(_identity(tensor), value)
                if keep is not value:
                    value.replace_all_uses_with(keep)
                    del graph.initializers[name]
                    count, saved = count + 1, saved + tensor.nbytes
        if saved >= 1024:
            self.event("info", f"{count} weights were there twice: {saved} bytes saved")
        return ir.passes.PassResult(model, count > 0)


def _identity(tensor: ir.TensorProtocol) -> Hashable:
    shape = tuple(int(dim) for dim in tensor.shape.numpy())
    if isinstance(tensor, ir.StringTensor) or tensor.dtype == ir.DataType.STRING:
        return tensor.dtype, shape, tuple(tensor.numpy().reshape(-1).tolist())
    return tensor.dtype, shape, hashlib.sha256(tensor.tobytes()).hexdigest()
