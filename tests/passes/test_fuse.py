"""Spelled out patterns become one operator, and the values stay."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.precision.small import normal, operators, run

F = np.float32
X = np.linspace(-4, 4, 24, dtype=F).reshape(2, 12)


def test_gelu() -> None:
    subject = normal(
        """g (float[2, 12] x) => (float[2, 12] y) {
            a = Div(x, root)
            b = Erf(a)
            c = Add(b, one)
            d = Mul(x, c)
            y = Mul(d, half)
        }""",
        {"root": np.array(math.sqrt(2), F), "one": np.array(1, F), "half": np.array(0.5, F)},
    )
    assert operators(subject.ir) == ["Gelu"]
    expected = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in X.reshape(-1).tolist()]
    np.testing.assert_allclose(run(subject.ir, {"x": X})["y"].reshape(-1), expected, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_layer_normalization(epsilon: float) -> None:
    subject = normal(
        """g (float[2, 12] x) => (float[2, 12] y) {
            m = ReduceMean<axes = [-1]>(x)
            d = Sub(x, m)
            q = Pow(d, two)
            v = ReduceMean<axes = [-1]>(q)
            e = Add(v, eps)
            s = Sqrt(e)
            n = Div(d, s)
            w = Mul(n, scale)
            y = Add(w, bias)
        }""",
        {
            "two": np.array(2, F),
            "eps": np.array(epsilon, F),
            "scale": np.linspace(1, 2, 12, dtype=F),
            "bias": np.linspace(0, 1, 12, dtype=F),
        },
        opset=17,
    )
    assert operators(subject.ir) == ["LayerNormalization"]
    centred = X - X.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon)
    expected = normed * np.linspace(1, 2, 12) + np.linspace(0, 1, 12)
    np.testing.assert_allclose(run(subject.ir, {"x": X})["y"], expected, atol=1e-5)


def test_a_gelu_whose_parts_are_read_elsewhere_stays() -> None:
    subject = normal(
        """g (float[2, 12] x) => (float[2, 12] y, float[2, 12] b) {
            a = Div(x, root)
            b = Erf(a)
            c = Add(b, one)
            d = Mul(x, c)
            y = Mul(d, half)
        }""",
        {"root": np.array(math.sqrt(2), F), "one": np.array(1, F), "half": np.array(0.5, F)},
    )
    out = run(subject.ir, {"x": X})
    np.testing.assert_allclose(
        out["b"].reshape(-1),
        [math.erf(v / math.sqrt(2)) for v in X.reshape(-1).tolist()],
        atol=1e-6,
    )
