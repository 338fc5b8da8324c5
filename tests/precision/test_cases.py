"""Values that half can't hold, which other converters lose: right values by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from builder.model import Array, Model
from builder.passes.check import validate
from builder.precision import fp16
from builder.precision.ranges import measure
from tests.close import assert_close
from tests.precision.small import input_dtypes, normal, references, run, weight

RNG = np.random.default_rng(11)
F = np.float32


def halve(model: Model, *inputs: dict[str, Array]) -> fp16.Halved:
    """Convert with the ranges of these inputs, and check the post-condition."""
    halved = fp16.convert(model.ir, measure(model.ir, references(model, *inputs)))
    validate(halved.ir, model.signature)
    return halved


def kept(halved: fp16.Halved) -> dict[str, str]:
    """Operators that stay in fp32, with what was measured."""
    return {node.op_type: node.detail for node in halved.kept}


def summed(array: Any, axis: int) -> Any:
    """A sum that is rounded to the array's own type after every term: the worst a GPU may do."""
    total = np.zeros_like(np.take(array, 0, axis))
    for term in np.moveaxis(array, axis, 0):
        total = (total + term).astype(array.dtype)
    return total


def product(left: Any, right: Any) -> Any:
    """A matrix product by such sums."""
    return summed(left[:, :, None] * right[None, :, :], 1)


def in_half(graph: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Run node by node in the types that the graph states, without half's subnormal numbers.

    numpy's own sums and products of half accumulate in fp32, and a GPU may do without subnormals.
    """
    values: dict[ir.Value | None, Any] = {v: inputs[v.name or ""] for v in graph.graph.inputs}
    for value in graph.graph.initializers.values():
        values[value] = flushed(weight(graph, value.name or ""))
    for node in graph.graph:
        given = [values[value] for value in node.inputs]
        with np.errstate(all="ignore"):
            if node.op_type == "Cast":
                dtype = ir.DataType(node.attributes["to"].as_int()).numpy()
                result = given[0].astype(dtype)
            elif node.op_type == "ReduceMean":
                (axis,) = node.attributes["axes"].as_ints()
                total = np.expand_dims(summed(given[0], axis), axis)
                result = total / np.asarray(given[0].shape[axis], given[0].dtype)
            elif node.op_type == "Softmax":
                e = np.exp(given[0] - given[0].max(axis=-1, keepdims=True))
                result = e / np.expand_dims(summed(e, -1), -1)
            else:
                result = NUMPY[node.op_type](*given)
        values[node.outputs[0]] = flushed(np.asarray(result))
    return {value.name or "": values[value] for value in graph.graph.outputs}


NUMPY: dict[str, Any] = {
    "Add": np.add,
    "Div": np.divide,
    "Max": np.maximum,
    "MatMul": product,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, np.zeros_like(x)),
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Where": np.where,
}


def flushed(array: Any) -> Any:
    """Half's subnormal numbers become 0."""
    if array.dtype != np.float16:
        return array
    return np.where(np.abs(array) < 2.0**-14, np.float16(0), array)


ROOT_MEAN_SQUARE = """g (float[2, 8] x) => (float[2, 8] y) {
    q = Mul(x, x)
    m = ReduceMean<axes = [1], keepdims = 1>(q)
    e = Add(m, eps)
    r = Sqrt(e)
    n = Div(x, r)
    y = Mul(n, scale)
}"""


@pytest.mark.parametrize("peak", [3.0, 60.0, 200.0, 3000.0])
def test_root_mean_square_of_large_activations(peak: float) -> None:
    scale = RNG.uniform(0.5, 2, 8).astype(F)
    model = normal(ROOT_MEAN_SQUARE, {"eps": np.array(1e-6, F), "scale": scale}, opset=17)
    x = (RNG.uniform(-1, 1, (2, 8)) * peak).astype(F)
    halved = halve(model, {"x": x})
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * scale
    assert_close(in_half(halved.ir, {"x": x})["y"], expected, rtol=4e-3, atol=4e-3)


def test_partial_sums_of_a_product_that_cancel_in_the_end() -> None:
    # 64 times 200 * 200, then 64 times -200 * 200: half is infinite after two terms.
    w = np.repeat([[200.0], [-200.0]], 64, axis=0).astype(F)
    w[0] = 200.01
    model = normal(
        "g (float[1, 128] x) => (float[1, 1] y) { r = Relu(x)  y = MatMul(r, w) }", {"w": w}
    )
    x = np.full((1, 128), 200, F)
    halved = halve(model, {"x": x})
    expected = 200 * (float(w[0, 0]) - 200)
    assert_close(in_half(halved.ir, {"x": x})["y"], [[expected]], rtol=0.05)
    assert list(kept(halved)) == ["MatMul"]
    np.testing.assert_array_equal(weight(halved.ir, "w"), w)
    assert [v.dtype for v in halved.ir.graph.initializers.values()] == [ir.DataType.FLOAT]


def test_partial_sums_of_a_product_of_two_activations() -> None:
    model = normal(
        """g (float[1, 64] q, float[64, 1] k) => (float[1, 1] y) {
            a = Relu(q)
            b = Neg(k)
            y = MatMul(a, b)
        }"""
    )
    k = np.repeat([[200.0], [-200.0]], 32, axis=0).astype(F)
    k[0] = 201
    inputs: dict[str, Array] = {"q": np.full((1, 64), 200, F), "k": k}
    assert_close(in_half(halve(model, inputs).ir, inputs)["y"], [[-200]], rtol=1e-2)


@pytest.mark.parametrize("place", [0, 3, 7])
def test_one_large_reference_among_several(place: int) -> None:
    model = normal("g (float[1, 4] x) => (float[1, 4] y) { q = Mul(x, x)  y = Sub(q, x) }")
    feeds: list[dict[str, Array]] = [{"x": np.full((1, 4), 2, F)} for _ in range(8)]
    feeds[place] = {"x": np.full((1, 4), 300, F)}
    halved = halve(model, *feeds)
    assert kept(halved) == {"Mul": "9e+04", "Sub": "9e+04"}
    assert_close(in_half(halved.ir, feeds[place])["y"], np.full((1, 4), 89_700.0))


@pytest.mark.parametrize("lowest", [-np.inf, -1e12, -3.4e38])
@pytest.mark.parametrize("added", [True, False])
def test_mask_chosen_by_where(lowest: float, added: bool) -> None:
    text = "m = Where(keep, zero, lowest)  s = Add(r, m)" if added else "s = Where(keep, r, lowest)"
    model = normal(
        f"""g (float[1, 3] x, bool[1, 3] keep) => (float[1, 3] y) {{
            r = Neg(x)
            {text}
            y = Softmax<axis = -1>(s)
        }}""",
        {"lowest": np.array(lowest, F), "zero": np.array(0, F)},
    )
    inputs: dict[str, Array] = {
        "x": np.array([[-1, -2, -30]], F),
        "keep": np.array([[True, True, False]]),
    }
    halved = halve(model, inputs)
    e = np.exp([1.0, 2.0])
    assert_close(in_half(halved.ir, inputs)["y"], [[*(e / e.sum()), 0]], atol=1e-3)
    assert input_dtypes(halved.ir, "Softmax") == [["FLOAT16"]]


def test_row_that_is_masked_as_a_whole_stays_even() -> None:
    model = normal(
        """g (float[2, 4] x, bool[2, 4] keep) => (float[2, 4] y) {
            r = Neg(x)
            s = Where(keep, r, lowest)
            y = Softmax<axis = -1>(s)
        }""",
        {"lowest": np.array(-3.4e38, F)},
    )
    inputs: dict[str, Array] = {
        "x": np.array([[1, 2, 3, 4], [5, 6, 7, 8]], F),
        "keep": np.array([[True, False, False, False], [False] * 4]),
    }
    out = in_half(halve(model, inputs).ir, inputs)["y"]
    assert_close(out, [[1, 0, 0, 0], [0.25] * 4], atol=1e-3)


def test_mask_that_is_read_as_numbers_keeps_its_value() -> None:
    model = normal(
        """g (float[1, 3] x, bool[1, 3] keep) => (float[1, 1] y) {
            s = Where(keep, x, lowest)
            y = ReduceMin<axes = [1], keepdims = 1>(s)
        }""",
        {"lowest": np.array(-1e12, F)},
        opset=17,
    )
    inputs: dict[str, Array] = {"x": np.ones((1, 3), F), "keep": np.array([[True, False, True]])}
    np.testing.assert_array_equal(run(halve(model, inputs).ir, inputs)["y"], [[F(-1e12)]])


def test_epsilon_of_a_layer_norm_over_equal_values() -> None:
    model = normal(
        """g (float[2, 4] x) => (float[2, 4] y) {
            y = LayerNormalization<axis = -1, epsilon = 1e-12>(x, w, b)
        }""",
        {"w": np.ones(4, F), "b": np.arange(4, dtype=F)},
    )
    x = np.array([[1, 1, 1, 1], [1, 2, 3, 4]], F)
    halved = halve(model, {"x": x})
    assert kept(halved) == {"LayerNormalization": "1e-12"}
    rows = [[0, 1, 2, 3], (np.arange(4) - 1.5) / np.sqrt(1.25) + np.arange(4)]
    assert_close(run(halved.ir, {"x": x})["y"], rows, rtol=1e-5, atol=1e-6)


def test_root_of_an_epsilon_without_subnormal_numbers() -> None:
    weights = {"eps": np.array(1e-12, F), "scale": np.ones(8, F)}
    model = normal(ROOT_MEAN_SQUARE, weights, opset=17)
    x = np.array([[0] * 8, [2] * 8], F)
    out = in_half(halve(model, {"x": x}).ir, {"x": x})["y"]
    assert_close(out, [[0] * 8, [1] * 8], rtol=1e-3)


@pytest.mark.parametrize("guard", ["c = Max(n, eps)", "c = Clip(n, eps)"])
@pytest.mark.parametrize("spread", ["e = Expand(c, size)", "e = Reshape(c, column)"])
def test_norm_of_zeros_guarded_by_an_epsilon(guard: str, spread: str) -> None:
    model = normal(
        f"""g (float[2, 4] x, int64[2] size) => (float[2, 4] y) {{
            n = ReduceL2<axes = [1], keepdims = 1>(x)
            {guard}
            {spread}
            y = Div(x, e)
        }}""",
        {"eps": np.array(1e-12, F), "column": np.array([2, 1])},
        opset=17,
    )
    inputs: dict[str, Array] = {"x": np.array([[0] * 4, [3, 0, 4, 0]], F), "size": np.array([2, 4])}
    halved = halve(model, inputs)
    # What matters is the type in which the division reads 1e-12; half would read 0.
    assert input_dtypes(halved.ir, "Div") == [["FLOAT", "FLOAT"]]
    assert_close(run(halved.ir, inputs)["y"], [[0] * 4, [0.6, 0, 0.8, 0]], rtol=1e-3)


def test_mean_over_no_tokens_guarded_by_an_epsilon() -> None:
    model = normal(
        """g (float[2, 3] h, int64[2, 3] mask) => (float[2, 1] y) {
            f = Cast<to = 1>(mask)
            w = Mul(h, f)
            s = ReduceSum(w, one)
            n = ReduceSum(f, one)
            c = Clip(n, eps)
            y = Div(s, c)
        }""",
        {"eps": np.array(1e-9, F), "one": np.array([1])},
    )
    inputs: dict[str, Array] = {
        "h": np.array([[1, 2, 9], [4, 5, 6]], F),
        "mask": np.array([[1, 1, 0], [0, 0, 0]]),
    }
    halved = halve(model, inputs)
    assert input_dtypes(halved.ir, "Div") == [["FLOAT", "FLOAT"]]
    assert_close(run(halved.ir, inputs)["y"], [[1.5], [0]], rtol=1e-3)


def test_casts_from_wider_floats_and_to_the_same_type() -> None:
    model = normal(
        """g (double[3] d, float[3] x) => (float[3] y) {
            f = Cast<to = 1>(d)
            r = Relu(x)
            same = Cast<to = 1>(r)
            like = CastLike(d, r)
            a = Add(f, same)
            y = Add(a, like)
        }""",
        opset=19,
    )
    inputs: dict[str, Array] = {"d": np.array([1, 2.5, -3]), "x": np.array([0.5, -1, 8], F)}
    assert_close(run(halve(model, inputs).ir, inputs)["y"], [2.5, 5, 2])
