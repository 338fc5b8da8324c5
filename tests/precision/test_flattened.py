"""1x1 convolutions as products: exact, or left alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from builder.passes.check import validate
from builder.precision import flattened
from tests.precision.small import normal, operators, run

RNG = np.random.default_rng(6)


def noise(*shape: int) -> npt.NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def text(batch: object, height: object, width: object, attributes: str = "", *, bias: bool) -> str:
    given = "x, w, b" if bias else "x, w"
    return f"""g (float[{batch}, 64, {height}, {width}] x) => (float[n, m, p, q] y) {{
        c = Conv<kernel_shape = [1, 1]{attributes}>({given})
        y = Relu(c)
    }}"""


@pytest.mark.parametrize("batch", ["n", 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 7), (3, 8)])
def test_is_the_convolution(batch: str | int, bias: bool, height: int, width: int) -> None:
    w, b, x = noise(96, 64, 1, 1), noise(96), noise(2, 64, height, width)
    subject = normal(text(batch, height, width, bias=bias), {"w": w, "b": b} if bias else {"w": w})
    graph = subject.ir.clone()
    assert flattened.flatten(graph) == 1
    validate(graph, subject.signature)
    assert "Conv" not in operators(graph)
    exact = np.einsum("oc,nchw->nohw", w[:, :, 0, 0].astype(np.float64), x)
    exact += b.reshape(1, -1, 1, 1) if bias else 0
    got = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(got, np.maximum(exact, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("height", "width", "attributes", "shape"),
    [
        (14, 14, "", (96, 64, 1, 1)),
        ("h", "w", "", (96, 64, 1, 1)),
        (7, 7, ", strides = [2, 2]", (96, 64, 1, 1)),
        (5, 5, ", pads = [1, 1, 1, 1]", (96, 64, 1, 1)),
        (7, 7, ", group = 2", (96, 32, 1, 1)),
        (7, 7, "", (32, 64, 1, 1)),
    ],
)
def test_leaves_others_alone(
    height: object, width: object, attributes: str, shape: tuple[int, ...]
) -> None:
    graph = normal(text("n", height, width, attributes, bias=False), {"w": noise(*shape)}).ir
    assert flattened.flatten(graph) == 0


def test_leaves_a_weight_of_the_run_alone() -> None:
    graph = normal(
        """g (float[n, 64, 7, 7] x, float[96, 64, 1, 1] w) => (float[n, 96, 7, 7] y) {
            a = Abs(w)
            y = Conv<kernel_shape = [1, 1]>(x, a)
        }"""
    ).ir
    assert flattened.flatten(graph) == 0
