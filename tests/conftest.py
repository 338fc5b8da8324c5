"""Shared by all tests: small real models, and the runtime's npm package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests import npm


def convnet(seed: int = 0, channels: int = 48) -> onnx.ModelProto:
    """Convolutions, pooling and a classifier: f32[batch,3,16,16] to f32[batch,10].

    Its weights are seeded noise, big enough (100 kB) that variants differ in size.
    """
    rng = np.random.default_rng(seed)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        return numpy_helper.from_array(rng.normal(0, scale, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], group=channels, pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c3"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w4", "b4"], ["logits"], transB=1),
    ]
    weights = [
        weight("w1", channels, 3, 3, 3),
        weight("b1", channels),
        weight("w2", channels, 1, 3, 3),
        weight("w3", 10 * channels, channels, 1, 1),
        weight("w4", 10, 10 * channels),
        weight("b4", 10),
    ]
    graph = helper.make_graph(
        nodes,
        "convnet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """`net.onnx` with its weights inside."""
    path = tmp_path / "net.onnx"
    onnx.save(convnet(), path)
    return path


@pytest.fixture(scope="session")
def npm_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime's npm package, unpacked below a `node_modules`."""
    return npm.install(tmp_path_factory.mktemp("npm"))
