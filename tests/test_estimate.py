"""Peak memory of activations, against hand calculation."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from builder.estimate import peak_activations

CHAIN = """
<ir_version: 9, opset_import: ["" : 17]>
chain (float[n, 10] x) => (float[n, 10] y) <float[n, 10] a, float[n, 10] b>
{ a = Relu(x)  b = Sigmoid(a)  y = Tanh(b) }
"""
RESIDUAL = """
<ir_version: 9, opset_import: ["" : 17]>
residual (float[n, 10] x) => (float[n, 10] y) <float[n, 10] a, float[n, 10] b>
{ a = Relu(x)  b = Sigmoid(a)  y = Add(b, x) }
"""


def peak(text: str, n: int) -> int:
    model = ir.from_proto(onnx.parser.parse_model(text))
    return peak_activations(model, {"x": np.zeros((n, 10), np.float32)})


def test_a_chain_holds_two_values_at_a_time() -> None:
    assert peak(CHAIN, 1) == 2 * 40
    assert peak(CHAIN, 8) == 2 * 320


def test_a_residual_keeps_its_input_alive() -> None:
    assert peak(RESIDUAL, 1) == 3 * 40
