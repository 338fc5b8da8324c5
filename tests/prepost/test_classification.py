"""The best classes and their probabilities are those that PyTorch finds."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

from builder.model import TensorSpec
from builder.prepost import classification_post
from builder.session import Session


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize(
    "shape", [(1, 1000), ("batch", 1000), ("batch", "classes"), (1, 1000, 1, 1)]
)
def test_top_five_agree_with_torch(shape: tuple[int | str, ...], softmax: bool) -> None:
    logits = np.random.default_rng(3).normal(0, 4, (1, 1000)).astype(np.float32)
    given = logits.reshape(1, 1000, *(1 for _ in shape[2:]))
    model = classification_post(TensorSpec("logits", "float32", shape), softmax=softmax)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    got = Session(model).run({"logits": given})
    values = torch.tensor(logits[0])
    wanted = (torch.softmax(values, 0) if softmax else values).topk(5)
    assert got["classes"].tolist() == wanted.indices.tolist()
    assert got["scores"].tolist() == pytest.approx(wanted.values.tolist(), rel=1e-5)


@pytest.mark.parametrize("shape", [(1, 3), ("batch", "classes"), (3,)])
def test_a_model_with_three_classes_gives_three(shape: tuple[int | str, ...]) -> None:
    model = classification_post(TensorSpec("logits", "float32", shape), softmax=False)
    given = np.array([0.2, 0.7, 0.1], np.float32).reshape(-1 if len(shape) == 1 else (1, 3))
    got = Session(model).run({"logits": given})
    assert got["classes"].tolist() == [1, 0, 2]
    assert got["scores"].dtype == np.float32


def test_half_precision_scores_come_out_in_single() -> None:
    model = classification_post(TensorSpec("logits", "float16", (1, 4)), softmax=True, k=1)
    got = Session(model).run({"logits": np.array([[0, 0, 12, 0]], np.float16)})
    assert got["classes"].tolist() == [2]
    assert got["scores"].dtype == np.float32
