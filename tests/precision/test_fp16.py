"""Half precision: every trigger that breaks other converters, with its right value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from builder.model import Array, Model
from builder.passes.check import validate
from builder.precision import fp16
from builder.precision.ranges import measure
from tests.precision.small import (
    input_dtypes,
    normal,
    operators,
    references,
    run,
    run_in_half,
    weight,
)

RNG = np.random.default_rng(0)


def convert(model: Model, *inputs: dict[str, Array]) -> fp16.Halved:
    """Convert and check the post-condition that every conversion has."""
    halved = fp16.convert(model.ir, measure(model.ir, references(model, *inputs)))
    validate(halved.ir, model.signature)
    order = list(halved.ir.graph)
    for node in order:
        for value in node.inputs:
            producer = value.producer() if value is not None else None
            if producer is not None and producer.graph is halved.ir.graph:
                assert order.index(producer) < order.index(node)
    return halved


def test_signature_stays_fp32_and_compute_is_half() -> None:
    model = normal("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    x = np.array([[1.5, -2, 3], [0, -1, 0.25]], np.float32)
    halved = convert(model, {"x": x})
    assert operators(halved.ir) == ["Cast", "Relu", "Cast"]
    np.testing.assert_array_equal(run(halved.ir, {"x": x})["y"], np.maximum(x, 0))
    assert halved.kept == ()


def test_inner_cast_to_float_is_retargeted() -> None:
    model = normal(
        "g (int64[3] i, float[3] x) => (float[3] y) { f = Cast<to = 1>(i)  y = Add(f, x) }"
    )
    inputs: dict[str, Array] = {"i": np.array([1, 2, 3]), "x": np.full(3, 0.5, np.float32)}
    halved = convert(model, inputs)
    assert input_dtypes(halved.ir, "Add") == [["FLOAT16", "FLOAT16"]]
    np.testing.assert_array_equal(run(halved.ir, inputs)["y"], [1.5, 2.5, 3.5])


def test_integers_above_2048_are_not_rounded() -> None:
    model = normal("g (int64[1] i) => (float[1] y) { f = Cast<to = 1>(i)  y = Neg(f) }")
    halved = convert(model, {"i": np.array([2049])})
    assert run(halved.ir, {"i": np.array([2049])})["y"] == -2049


def test_weight_shared_by_a_kept_and_a_half_node_keeps_exact_bits() -> None:
    w = np.array([0.1, 0.2, 0.3], np.float32)
    model = normal(
        """g (float[3] x) => (float[3] a, float[3] b) {
            a = Mul(x, w)
            s = Sin(x)
            b = Mod<fmod = 1>(s, w)
        }""",
        {"w": w},
    )
    x = np.array([1, 2, 3], np.float32)
    halved = convert(model, {"x": x})
    np.testing.assert_array_equal(weight(halved.ir, "w"), w)
    np.testing.assert_array_equal(weight(halved.ir, "w_half"), w.astype(np.float16))
    out = run(halved.ir, {"x": x})
    np.testing.assert_array_equal(out["b"], run(model.ir, {"x": x})["b"])
    np.testing.assert_allclose(out["a"], x * w, rtol=2e-3)


def test_resize_scales_and_roi_stay_fp32() -> None:
    model = normal(
        """g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) {
            r = Relu(x)
            y = Resize<mode = "nearest">(r, roi, scales)
        }""",
        {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
    )
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    halved = convert(model, {"x": x})
    types = input_dtypes(halved.ir, "Resize")[0]
    assert types[0] == "FLOAT16"
    assert set(types[1:]) == {"FLOAT"}
    expected = x.repeat(2, axis=2).repeat(2, axis=3)
    np.testing.assert_array_equal(run(halved.ir, {"x": x})["y"], expected)


def test_concat_of_half_and_kept_values_has_one_type() -> None:
    model = normal(
        "g (float[2] x) => (float[4] y) { a = Relu(x)  b = Sin(x)  y = Concat<axis = 0>(a, b) }"
    )
    x = np.array([1, 2], np.float32)
    halved = convert(model, {"x": x})
    assert len(set(input_dtypes(halved.ir, "Concat")[0])) == 1
    np.testing.assert_allclose(run(halved.ir, {"x": x})["y"], [1, 2, *np.sin(x)], rtol=1e-6)


def test_output_that_is_read_inside() -> None:
    model = normal("g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x)  b = Neg(a) }")
    x = np.array([-1, 2], np.float32)
    halved = convert(model, {"x": x})
    assert operators(halved.ir).count("Cast") == 3
    out = run(halved.ir, {"x": x})
    np.testing.assert_array_equal(out["a"], [0, 2])
    np.testing.assert_array_equal(out["b"], [0, -2])


def test_value_is_cast_once_for_all_readers() -> None:
    model = normal(
        """g (float[2] x) => (float[2] y) {
            a = Relu(x)
            b = Neg(x)
            c = Abs(x)
            d = Add(a, b)
            y = Add(d, c)
        }"""
    )
    halved = convert(model, {"x": np.ones(2, np.float32)})
    assert operators(halved.ir).count("Cast") == 2


def test_typed_constants_and_constant_of_shape() -> None:
    model = normal(
        """g (float[n] x) => (float[n] y) {
            c = Constant<value_float = 0.5>()
            s = Shape(x)
            z = ConstantOfShape(s)
            m = Mul(x, c)
            y = Add(m, z)
        }"""
    )
    x = np.array([2, 4, 6], np.float32)
    halved = convert(model, {"x": x})
    np.testing.assert_array_equal(run(halved.ir, {"x": x})["y"], [1, 2, 3])


RMS = """g (float[1, 4] x) => (float[1, 1] y) {
    two = Constant<value_float = 2.0>()
    axes = Constant<value_ints = [1]>()
    q = Pow(x, two)
    m = ReduceMean(q, axes)
    y = Sqrt(m)
}"""


def test_root_mean_square_is_not_computed_in_half() -> None:
    model = normal(RMS)
    x = np.array([[500, -400, 300, 200]], np.float32)
    halved = convert(model, {"x": x})
    expected = np.sqrt(np.float32(135_000))  # (250000 + 160000 + 90000 + 40000) / 4
    np.testing.assert_allclose(run_in_half(halved.ir, {"x": x})["y"], [[expected]], rtol=1e-3)
    assert {kept.op_type for kept in halved.kept} >= {"Pow", "ReduceMean"}
    assert any("2.5e+05" in event.message for event in halved.events)


@pytest.mark.parametrize("op_type", ["ReduceL2", "ReduceSumSquare", "LpNormalization"])
def test_sum_of_squares_inside_an_operator_is_found(op_type: str) -> None:
    axes = "" if op_type == "LpNormalization" else "<axes = [1], keepdims = 1>"
    shape = "1, 4" if op_type == "LpNormalization" else "1, 1"
    text = f"g (float[1, 4] x) => (float[{shape}] y) {{ y = {op_type}{axes}(x) }}"
    model = normal(text, opset=17)
    x = np.array([[50, -140, 130, 120]], np.float32)  # squares sum to 53400: over half of 65504
    halved = convert(model, {"x": x})
    assert [kept.op_type for kept in halved.kept] == [op_type]


def test_layer_normalization_with_large_activations_stays_fp32() -> None:
    model = normal(
        "g (float[1, 4] x) => (float[1, 4] y) { y = LayerNormalization<axis = -1>(x, w, b) }",
        {"w": np.ones(4, np.float32), "b": np.zeros(4, np.float32)},
    )
    x = np.array([[500, -400, 300, 200]], np.float32)
    halved = convert(model, {"x": x})
    centred = x - x.mean()
    expected = centred / np.sqrt((centred**2).mean() + 1e-5)
    np.testing.assert_allclose(run(halved.ir, {"x": x})["y"], expected, rtol=1e-5)
    assert [kept.op_type for kept in halved.kept] == ["LayerNormalization"]


MASKED = """g (float[1, 4] scores, float[1, 4] keep) => (float[1, 4] y) {
    one = Constant<value_float = 1.0>()
    lowest = Constant<value_float = -1000000000000.0>()
    scaled = Neg(scores)
    drop = Sub(one, keep)
    mask = Mul(drop, lowest)
    s = Add(scaled, mask)
    y = Softmax<axis = -1>(s)
}"""


def test_computed_mask_becomes_finite_and_scores_stay_half() -> None:
    model = normal(MASKED)
    inputs: dict[str, Array] = {
        "scores": np.array([[-1, -2, -3, 4]], np.float32),
        "keep": np.array([[1, 1, 0, 0]], np.float32),
    }
    halved = convert(model, inputs)
    out = run_in_half(halved.ir, inputs)["y"]
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(out, [[*(e / e.sum()), 0, 0]], atol=1e-3)
    assert input_dtypes(halved.ir, "Softmax") == [["FLOAT16"]]


@pytest.mark.parametrize("lowest", [-np.inf, -1e12, -3.4e38])
def test_constant_mask_becomes_finite(lowest: float) -> None:
    model = normal(
        """g (float[1, 3] x) => (float[1, 3] y) {
            r = Neg(x)
            s = Add(r, m)
            y = Softmax<axis = -1>(s)
        }""",
        {"m": np.array([[0, 0, lowest]], np.float32)},
    )
    x = np.array([[-1, -2, -30]], np.float32)
    halved = convert(model, {"x": x})
    assert np.isfinite(weight(halved.ir, "m_half")).all()
    e = np.exp([1.0, 2.0])
    out = run_in_half(halved.ir, {"x": x})["y"]
    np.testing.assert_allclose(out, [[*(e / e.sum()), 0]], atol=1e-3)


def test_infinity_elsewhere_stays_fp32() -> None:
    model = normal(
        "g (float[2] x) => (float[2] y) { y = Max(x, m) }", {"m": np.array(-np.inf, np.float32)}
    )
    x = np.array([-7e4, 2], np.float32)
    np.testing.assert_array_equal(run(convert(model, {"x": x}).ir, {"x": x})["y"], x)


def test_epsilon_is_not_lost() -> None:
    model = normal(
        """g (float[2] x) => (float[2] y) {
            v = Mul(x, x)
            e = Add(v, eps)
            r = Sqrt(e)
            y = Div(x, r)
        }""",
        {"eps": np.array(1e-12, np.float32)},
    )
    x = np.array([0, 3], np.float32)
    halved = convert(model, {"x": x})
    np.testing.assert_array_equal(weight(halved.ir, "eps"), np.float32(1e-12))
    np.testing.assert_allclose(run_in_half(halved.ir, {"x": x})["y"], [0, 1], rtol=1e-3)
    # The root of 1e-12 is below half's normal numbers too.
    assert [kept.op_type for kept in halved.kept] == ["Add", "Sqrt", "Div"]


def test_weight_beyond_half_keeps_its_node() -> None:
    model = normal(
        "g (float[2] x) => (float[2] y) { y = Mul(x, w) }", {"w": np.array([1e5, 1], np.float32)}
    )
    x = np.array([1e-3, 2], np.float32)
    halved = convert(model, {"x": x})
    np.testing.assert_array_equal(run(halved.ir, {"x": x})["y"], x * np.array([1e5, 1], np.float32))
    assert "beyond half's range" in halved.kept[0].reason


def test_three_dimensional_convolution_stays_fp32() -> None:
    w = RNG.standard_normal((2, 1, 2, 2, 2)).astype(np.float32)
    model = normal(
        "g (float[1, 1, 3, 3, 3] x) => (float[1, 2, 2, 2, 2] y) { y = Conv(x, w) }", {"w": w}
    )
    x = RNG.standard_normal((1, 1, 3, 3, 3)).astype(np.float32)
    halved = convert(model, {"x": x})
    assert operators(halved.ir) == ["Conv"]
    assert "three spatial dimensions" in halved.kept[0].reason


def test_nodes_in_branches_get_the_types_they_want() -> None:
    model = normal(
        """g (float[2] x, bool c) => (float[2] y) {
            h = Relu(x)
            i = If(c) <
                then_branch = t () => (float[2] a) { a = Add(h, w) },
                else_branch = e () => (float[2] b) { b = Sin(h) }
            >
            y = Neg(i)
        }""",
        {"w": np.array([0.1, 0.2], np.float32)},
    )
    x = np.array([1, -1], np.float32)
    feeds: list[dict[str, Array]] = [{"x": x, "c": np.array(flag)} for flag in (True, False)]
    halved = convert(model, *feeds)
    assert input_dtypes(halved.ir, "Add") == [["FLOAT16", "FLOAT16"]]
    assert input_dtypes(halved.ir, "Sin") == [["FLOAT"]]
    np.testing.assert_allclose(run(halved.ir, feeds[0])["y"], [-1.1, -0.2], rtol=1e-3)
    np.testing.assert_allclose(run(halved.ir, feeds[1])["y"], [-np.sin(1), 0], rtol=1e-3)


def test_layers_stand_in_the_order_of_the_graph() -> None:
    steps = "".join(f" v{i + 1} = Tanh(v{i})" for i in range(20))
    model = normal(f"g (float[2] v0) => (float[2] v20) {{{steps} }}")
    halved = convert(model, {"v0": np.ones(2, np.float32)})
    assert list(halved.layers) == [node.name for node in model.ir.graph]


def test_random_operators_stay_typed() -> None:
    model = normal(
        """g (float[2] x) => (float[2] y) {
            r = RandomNormalLike<seed = 1.0>(x)
            z = Mul(r, w)
            y = Add(x, z)
        }""",
        {"w": np.zeros(2, np.float32)},
    )
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(convert(model, {"x": x}).ir, {"x": x})["y"], x)


def test_input_that_is_an_output() -> None:
    model = normal("g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }")
    x = np.array([0.1, -1], np.float32)
    np.testing.assert_array_equal(run(convert(model, {"x": x}).ir, {"x": x})["x"], x)


def test_the_given_graph_is_unchanged() -> None:
    model = normal(
        "g (float[2] x) => (float[2] y) { y = Mul(x, w) }", {"w": np.ones(2, np.float32)}
    )
    before = ir.to_proto(model.ir).SerializeToString(deterministic=True)
    convert(model, {"x": np.ones(2, np.float32)})
    assert ir.to_proto(model.ir).SerializeToString(deterministic=True) == before


def test_two_conversions_give_the_same_bytes() -> None:
    model = normal(MASKED)
    inputs: dict[str, Array] = {
        "scores": np.ones((1, 4), np.float32),
        "keep": np.eye(4, dtype=np.float32)[:1],
    }
    first, second = (ir.to_proto(convert(model, inputs).ir) for _ in range(2))
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("made", [fp16.convert, fp16.store])
def test_a_tied_table_is_stored_once_in_half(made: Callable[..., fp16.Halved]) -> None:
    table = RNG.standard_normal((40, 16)).astype(np.float32)
    model = normal(
        """g (int64[3] i) => (float[3, 40] y) {
            e = Gather(w, i)
            r = Relu(e)
            t = Transpose<perm = [1, 0]>(w)
            y = MatMul(r, t)
        }""",
        {"w": table},
    )
    i = np.array([0, 7, 39])
    halved = made(model.ir, measure(model.ir, references(model, {"i": i})))
    validate(halved.ir, model.signature)
    stored = [v.const_value for v in halved.ir.graph.initializers.values()]
    assert sum(tensor.nbytes for tensor in stored if tensor is not None) == table.nbytes // 2
    rounded = table.astype(np.float16).astype(np.float64)
    expected = np.maximum(rounded[i], 0) @ rounded.T
    np.testing.assert_allclose(run(halved.ir, {"i": i})["y"], expected, rtol=2e-3, atol=1e-2)


def test_a_transposed_weight_of_a_product_in_fp32_stays_exact() -> None:
    table = RNG.standard_normal((40, 16)).astype(np.float32)
    model = normal(
        """g (int64[3] i) => (float[3, 40] y) {
            e = Gather(w, i)
            b = Mul(e, big)
            t = Transpose<perm = [1, 0]>(w)
            y = MatMul(b, t)
        }""",
        {"w": table, "big": np.array(1e5, np.float32)},
    )
    i = np.array([0, 7, 39])
    halved = convert(model, {"i": i})
    assert input_dtypes(halved.ir, "Transpose") == [["FLOAT"]]
    np.testing.assert_array_equal(weight(halved.ir, "w"), table)


@pytest.mark.parametrize(
    ("text", "halved"),
    [
        ("c = Conv(x, w)  y = Clip(c, zero, six)", True),
        ("c = Conv(x, w)  s = Sin(c)  d = Clip(c, zero, six)  y = Add(d, s)", False),
        ("c = Add(x, x)  y = Clip(c, zero, six)", False),
        ("c = Conv(x, w)  d = Relu(c)  y = Clip(d, zero, six)", False),
    ],
)
def test_clip_is_half_only_where_a_convolution_does_it(text: str, halved: bool) -> None:
    # Alone its shader doesn't compile in half on WebGPU.
    weights = {
        "w": RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "zero": np.array(0, np.float32),
        "six": np.array(6, np.float32),
    }
    model = normal(f"g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y) {{ {text} }}", weights)
    x = RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)
    made = convert(model, {"x": x}).ir
    assert input_dtypes(made, "Clip")[0][0] == ("FLOAT16" if halved else "FLOAT")
    exact, got = run(model.ir, {"x": x})["y"], run(made, {"x": x})["y"]
    np.testing.assert_allclose(got, exact, rtol=5e-3, atol=5e-3)


def test_a_clip_behind_a_convolution_kept_wider_is_fp32() -> None:
    weights = {
        "w": RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "six": np.array(6, np.float32),
    }
    text = "g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y) { c = Conv(x, w) y = Clip(c, , six) }"
    model = normal(text, weights)
    x = RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)
    ranges = measure(model.ir, references(model, {"x": x}))
    name = next(node.name for node in model.ir.graph if node.op_type == "Conv")
    made = fp16.convert(model.ir, ranges, frozenset([name or ""])).ir
    assert input_dtypes(made, "Clip")[0][0] == "FLOAT"


def test_pad_stays_fp32() -> None:
    # Its shader doesn't compile in half on WebGPU.
    model = normal(
        "g (float[1, 4] x) => (float[1, 6] y) { a = Neg(x) p = Pad(a, pads) y = Neg(p) }",
        {"pads": np.array([0, 1, 0, 1])},
    )
    x = np.array([[1, 2, 3, 4]], np.float32)
    made = convert(model, {"x": x}).ir
    assert input_dtypes(made, "Pad")[0][0] == "FLOAT"
    np.testing.assert_array_equal(run(made, {"x": x})["y"], [[0, 1, 2, 3, 4, 0]])
