"""Depthwise convolutions over the whole width: exact, whatever their padding, or left alone."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from builder.passes.check import validate
from builder.precision import toeplitz
from tests.precision.small import normal, operators, run, weight

Pads: TypeAlias = tuple[int, int, int, int]

Floats: TypeAlias = npt.NDArray[np.float32]

RNG = np.random.default_rng(5)


def noise(*shape: int) -> Floats:
    return RNG.standard_normal(shape).astype(np.float32)


def expected(x: Floats, w: Floats, pads: Pads, bias: Floats | None) -> Floats:
    """Each window times the filter of its channel, in double precision."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    result = np.einsum("nchwij,cij->nchw", windows, w[:, 0].astype(np.float64))
    exact: Floats = (result if bias is None else result + bias.reshape(1, -1, 1, 1)).astype("f4")
    return exact


def text(
    size: tuple[object, ...],
    side: int,
    attributes: str,
    *,
    bias: bool = True,
    channels: int = 6,
    behind: str = "y = Identity(c)",
) -> str:
    batch, height, width = size
    inputs = "x, w, b" if bias else "x, w"
    return f"""g (float[{batch}, {channels}, {height}, {width}] x) => (float[n, m, p, q] y) {{
        c = Conv<group = 6, kernel_shape = [{side}, {side}], {attributes}>({inputs})
        {behind}
    }}"""


@pytest.mark.parametrize("batch", ["n", 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("image", "side", "pads"),
    [
        ((7, 7), 5, (2, 2, 2, 2)),
        ((14, 14), 5, (2, 2, 2, 2)),
        ((7, 7), 3, (1, 1, 1, 1)),
        ((9, 6), 3, (1, 1, 1, 1)),
        ((8, 7), 5, (0, 1, 3, 2)),
        ((8, 7), 5, (3, 4, 0, 3)),
        ((7, 5), 3, (0, 0, 0, 0)),
        ((6, 6), 5, (0, 2, 0, 2)),
    ],
)
def test_is_the_convolution(
    batch: str | int, bias: bool, image: tuple[int, int], side: int, pads: Pads
) -> None:
    w, b, x = noise(6, 1, side, side), noise(6), noise(2, 6, *image)
    attributes = f"pads = [{', '.join(map(str, pads))}]"
    weights = {"w": w, "b": b} if bias else {"w": w}
    subject = normal(text((batch, *image), side, attributes, bias=bias), weights)
    graph = subject.ir.clone()
    assert toeplitz.widen(graph) == 1
    validate(graph, subject.signature)
    assert "Conv" not in operators(graph)
    assert "FusedConv" in operators(graph)
    exact = expected(x, w, pads, b if bias else None)
    got = run(graph, {"x": x})["y"]
    assert got.shape == exact.shape
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("behind", "rule"),
    [
        ("y = Relu(c)", lambda c: np.maximum(c, 0)),
        ("y = Clip(c, low, high)", lambda c: np.clip(c, -0.5, 0.75)),
        ("y = Clip(c, , high)", lambda c: np.minimum(c, 0.75)),
        ("y = Clip(c, low)", lambda c: np.maximum(c, -0.5)),
    ],
)
def test_takes_the_activation_in(behind: str, rule: object) -> None:
    w, b, x = noise(6, 1, 3, 3), noise(6), noise(2, 6, 7, 7)
    bounds = {"low": np.float32(-0.5), "high": np.float32(0.75)}
    weights = {"w": w, "b": b, **{k: np.array(v) for k, v in bounds.items() if k in behind}}
    subject = normal(text(("n", 7, 7), 3, "pads = [1, 1, 1, 1]", behind=behind), weights)
    graph = subject.ir.clone()
    assert toeplitz.widen(graph) == 1
    assert not {"Relu", "Clip"}.intersection(operators(graph))
    exact = rule(expected(x, w, (1, 1, 1, 1), b))  # type: ignore[operator]
    np.testing.assert_allclose(run(graph, {"x": x})["y"], exact, rtol=1e-5, atol=1e-5)


def test_an_activation_stays_where_others_read_the_convolution() -> None:
    w, b, x = noise(6, 1, 3, 3), noise(6), noise(2, 6, 7, 7)
    behind = "r = Relu(c) y = Sub(r, c)"
    subject = normal(text(("n", 7, 7), 3, "pads = [1, 1, 1, 1]", behind=behind), {"w": w, "b": b})
    graph = subject.ir.clone()
    assert toeplitz.widen(graph) == 1
    exact = expected(x, w, (1, 1, 1, 1), b)
    np.testing.assert_allclose(
        run(graph, {"x": x})["y"], np.maximum(exact, 0) - exact, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("size", "side", "attributes"),
    [
        (("n", 7, 7), 3, "pads = [1, 1, 1, 1], strides = [2, 2]"),
        (("n", 7, 7), 3, "pads = [2, 2, 2, 2], dilations = [2, 2]"),
        (("n", "h", "w"), 3, "pads = [1, 1, 1, 1]"),
        (("n", 7, "w"), 3, "pads = [1, 1, 1, 1]"),
        (("n", 14, 14), 3, "pads = [1, 1, 1, 1]"),
        (("n", 28, 28), 5, "pads = [2, 2, 2, 2]"),
        (("n", 7, 7), 7, "pads = [3, 3, 3, 3]"),
    ],
)
def test_leaves_others_alone(size: tuple[object, ...], side: int, attributes: str) -> None:
    weights = {"w": noise(6, 1, side, side), "b": noise(6)}
    graph = normal(text(size, side, attributes), weights).ir
    assert toeplitz.widen(graph) == 0
    assert "Conv" in operators(graph)


def test_leaves_alone_what_is_not_depthwise() -> None:
    pads = "pads = [1, 1, 1, 1]"
    several = normal(text(("n", 7, 7), 3, pads), {"w": noise(12, 1, 3, 3), "b": noise(12)})
    grouped = normal(
        text(("n", 7, 7), 3, pads, channels=12), {"w": noise(6, 2, 3, 3), "b": noise(6)}
    )
    for subject in (several, grouped):
        assert toeplitz.widen(subject.ir) == 0


def test_wide_filters_are_not_stored() -> None:
    w = noise(6, 1, 5, 5)
    graph: ir.Model = normal(
        text(("n", 14, 14), 5, "pads = [2, 2, 2, 2]"), {"w": w, "b": noise(6)}
    ).ir
    assert toeplitz.widen(graph) == 1
    np.testing.assert_array_equal(weight(graph, "w"), w)
    stored = [v for v in graph.graph.initializers.values() if v.dtype == ir.DataType.FLOAT]
    assert sorted(v.name or "" for v in stored) == ["b", "w"]
