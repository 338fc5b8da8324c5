"""Patterns of transformers become the operators that stand for them."""

from __future__ import annotations

import onnx_ir as ir
from onnxruntime.transformers.fusion_gelu import FusionGelu
from onnxruntime.transformers.fusion_layernorm import FusionLayerNormalization
from onnxruntime.transformers.onnx_model import OnnxModel

from builder.passes.base import Telling

FUSIONS = (FusionGelu, FusionLayerNormalization)
"""Of `onnxruntime.transformers`. Attention isn't among them: the web runtime gains less than 7 %
by it, and its products could no longer be told apart from one another."""


class FuseTransformers(Telling, ir.passes.FunctionalPass):
    """Fuse what exporters spell out: Gelu in five operators, LayerNormalization in nine.

    Fewer nodes, and in half precision norms that don't overflow: their sums are inside one kernel.
    """

    step = "fuse transformer patterns"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run every fusion on the graph; the result replaces the model's graph."""
        if not any(node.op_type in ("Erf", "ReduceMean") for node in model.graph):
            return ir.passes.PassResult(model.clone(), False)
        fused = OnnxModel(ir.to_proto(model))
        before = len(fused.nodes())
        for fusion in FUSIONS:
            fusion(fused).apply()
        fused.topological_sort()
        after = len(fused.nodes())
        if after >= before:
            return ir.passes.PassResult(model.clone(), False)
        self.event("info", f"{before} nodes became {after}")
        result = ir.from_proto(fused.model)
        result.opset_imports.setdefault("com.microsoft", 1)
        return ir.passes.PassResult(result, True)
