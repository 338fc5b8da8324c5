"""Graphs optimised while the site is built: fused, no larger, the same in every build."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.errors import UnsupportedError
from builder.model import Signature
from builder.webruntime import offline
from tests.conftest import convnet

PROBE = {"x": np.linspace(-1, 1, 2 * 3 * 16 * 16, dtype=np.float32).reshape(2, 3, 16, 16)}


def stored_in_eight_bits() -> ir.Model:
    """y = relu(x @ ((levels - 128) * scale)), the weight made of bytes at every start."""
    rng = np.random.default_rng(3)
    weights = {
        "levels": rng.integers(0, 255, (64, 64), np.uint8),
        "zero": np.array(128, np.float32),
        "scale": rng.uniform(0.01, 0.02, 64).astype(np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["levels"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["cast", "zero"], ["centred"]),
        helper.make_node("Mul", ["centred", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Relu", ["xw"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in "xy"]
    graph = helper.make_graph(
        nodes,
        "eighths",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    opset = [helper.make_opsetid("", 18)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opset, ir_version=10))


def test_fused_and_otherwise_the_same() -> None:
    plain = ir.from_proto(convnet())
    made = offline.optimise(plain, [PROBE])
    operators = Counter(node.op_type for node in made.ir.graph)
    assert (operators["FusedConv"], operators["Relu"]) == (2, 0)
    assert made.level == "disabled"
    assert Signature.of(made.ir.graph) == Signature.of(plain.graph)
    assert set(made.ir.opset_imports) == {"", "com.microsoft"}
    assert offline.download(made.ir) <= offline.GROWTH * offline.download(plain)
    # onnxruntime itself, told to change nothing, computes what it computes of the original.
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = ort.InferenceSession(ir.to_proto(made.ir).SerializeToString(), options).run(None, PROBE)
    wanted = ort.InferenceSession(convnet().SerializeToString(), options).run(None, PROBE)
    np.testing.assert_allclose(given[0], wanted[0], rtol=1e-4, atol=1e-5)


def test_what_is_small_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "GROWTH", 4.5)
    plain = stored_in_eight_bits()
    made = offline.optimise(plain, [{"x": np.ones((3, 64), np.float32)}])
    assert [node.op_type for node in made.ir.graph if node.op_type in ("Cast", "Sub")] == []
    assert made.level == "disabled"


def test_two_builds_give_the_same_bytes() -> None:
    first, second = (
        ir.to_proto(offline.optimise(ir.from_proto(convnet()), [PROBE]).ir) for _ in range(2)
    )
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )
    assert (first.producer_name, first.doc_string) == ("", "")


def test_weights_in_eight_bits_stay_in_eight_bits() -> None:
    plain = stored_in_eight_bits()
    made = offline.optimise(plain, [{"x": np.ones((3, 64), np.float32)}])
    stored = [
        np.asarray(value.const_value)
        for value in made.ir.graph.initializers.values()
        if value.const_value is not None
    ]
    assert any(array.dtype == np.uint8 and array.shape == (64, 64) for array in stored)
    assert not any(array.dtype == np.float32 and array.size > 64 for array in stored)
    assert made.level == "basic"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FUSED", frozenset(), "com.microsoft.FusedConv"),
        ("GROWTH", 0.5, "bytes would be downloaded"),
        ("MINIMUM", 201.0, "dB"),
        ("OPSET_MAX", 16, "newer than the web runtime"),
    ],
)
def test_what_is_of_no_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object, said: str
) -> None:
    monkeypatch.setattr(offline, name, value)
    with pytest.raises(UnsupportedError, match=said):
        offline.optimise(ir.from_proto(convnet()), [PROBE])


def test_a_graph_that_onnxruntime_refuses() -> None:
    graph = helper.make_graph(
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    odd = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(UnsupportedError, match="onnxruntime fails"):
        offline.optimise(ir.from_proto(odd), [])
