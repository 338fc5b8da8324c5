"""Graphs point into packs, and give the same results as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from builder.bundle.store import Store
from builder.bundle.weights import store_variants


def linear(weight: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """y = x @ weight + bias, the bias held in typed fields as some exporters write it."""
    typed_bias = helper.make_tensor("bias", TensorProto.FLOAT, bias.shape, bias.tolist())
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["xw"], "matmul"),
            helper.make_node("Add", ["xw", "bias"], ["y"], "add"),
        ],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", weight.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", weight.shape[1]])],
        [numpy_helper.from_array(weight, "weight"), typed_bias],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_stored_graphs_run_from_their_shards_and_share_the_common_weight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(64, 300)).astype(np.float32)
    biases = [rng.normal(size=300).astype(np.float32) for _ in range(2)]
    store = Store(tmp_path, limit=50_000)
    variants = {
        name: ir.from_proto(linear(shared, bias))
        for name, bias in zip(("fp32", "int8"), biases, strict=True)
    }
    stored = store_variants(variants, store)

    first, second = ({blob["name"] for blob in s.weights} for s in stored.values())
    assert len(first & second) == 1, "the shared weight is downloaded once"
    assert len(first) == len(second) == 2
    x = rng.normal(size=(3, 64)).astype(np.float32)
    for (name, entry), bias in zip(stored.items(), biases, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        for blob in entry.weights:
            content = b"".join((tmp_path / s["path"]).read_bytes() for s in blob["shards"])
            (folder / blob["name"]).write_bytes(content)
        graph = folder / "graph.onnx"
        graph.write_bytes((tmp_path / entry.graph["path"]).read_bytes())
        onnx.checker.check_model(graph, full_check=True)
        session = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(
            session.run(None, {"x": x})[0], x @ shared + bias, rtol=1e-4, atol=1e-4
        )
        assert entry.largest_weight == shared.nbytes
        assert entry.size == entry.graph["size"] + shared.nbytes + bias.nbytes


def test_small_weights_stay_in_the_graph(tmp_path: Path) -> None:
    model = ir.from_proto(linear(np.ones((2, 3), np.float32), np.ones(3, np.float32)))
    stored = store_variants({"fp32": model}, Store(tmp_path))["fp32"]
    assert stored.weights == []
    content = (tmp_path / stored.graph["path"]).read_bytes()
    (y,) = ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(
        None, {"x": np.ones((1, 2), np.float32)}
    )
    assert y.tolist() == [[3.0, 3.0, 3.0]]
