"""Random inputs: shapes, dtypes, and the same ones each time."""

from __future__ import annotations

import numpy as np

from builder.inputs import random_inputs, resolve_dims
from builder.model import Signature, TensorSpec

SIGNATURE = Signature(
    inputs=(
        TensorSpec("x", "float32", ("batch", 3, "h", "w")),
        TensorSpec("ids", "int64", ("batch", "tokens")),
        TensorSpec("attention_mask", "int64", ("batch", "tokens")),
        TensorSpec("flag", "bool", (1000,)),
        TensorSpec("threshold", "float32", (), default=(0.5,)),
        TensorSpec("half", "float16", (2,)),
    ),
    outputs=(),
)


def test_a_symbolic_dimension_has_one_extent() -> None:
    drawn = random_inputs(SIGNATURE, seed=0, dims={"h": 5, "tokens": 7})
    assert drawn["x"].shape == (1, 3, 5, 32)
    assert drawn["ids"].shape == drawn["attention_mask"].shape == (1, 7)


def test_dtypes_and_values() -> None:
    drawn = random_inputs(SIGNATURE, seed=0)
    assert {name: array.dtype.name for name, array in drawn.items()} == {
        spec.name: spec.dtype for spec in SIGNATURE.inputs
    }
    assert drawn["ids"].min() >= 0
    assert drawn["ids"].max() < 10
    assert (drawn["attention_mask"] == 1).all()
    assert 400 < drawn["flag"].sum() < 600
    assert drawn["threshold"] == 0.5
    assert abs(float(drawn["x"].astype(np.float64).std()) - 1) < 0.1


def test_same_arguments_same_inputs() -> None:
    first, second = (random_inputs(SIGNATURE, seed=3) for _ in range(2))
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    other = random_inputs(SIGNATURE, seed=4)
    assert not np.array_equal(first["x"], other["x"])


def test_integers_can_be_limited() -> None:
    assert random_inputs(SIGNATURE, seed=0, integers=2)["ids"].max() <= 1


def test_default_array() -> None:
    signature = Signature((TensorSpec("v", "float32", (3,), default=(1.0, 2.0, 3.0)),), ())
    np.testing.assert_array_equal(random_inputs(signature, seed=0)["v"], [1, 2, 3])


def test_resolve_dims() -> None:
    assert resolve_dims(SIGNATURE, {"w": 8}) == {"batch": 1, "h": 32, "w": 8, "tokens": 32}
