"""Constant folding: what folds, with right values, and what must not."""

from __future__ import annotations

import numpy as np
import pytest

from builder import passes
from builder.model import Array
from tests.precision.small import model, normal, operators, run, weight

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("value = float[2] {3, 4}", [3, 4]),
        ("value_float = 3.0", [3, 3]),
        ("value_floats = [3.0, 4.0]", [3, 4]),
    ],
)
def test_constants_of_floats(constant: str, expected: list[float]) -> None:
    subject = normal(
        f"g (float[2] x) => (float[2] y) {{ c = Constant<{constant}>()  y = Mul(x, c) }}"
    )
    assert operators(subject.ir) == ["Mul"]
    np.testing.assert_array_equal(run(subject.ir, {"x": np.ones(2, np.float32)})["y"], expected)


@pytest.mark.parametrize(
    ("constant", "expected"), [("value_int = 3", [3, 3]), ("value_ints = [3, 4]", [3, 4])]
)
def test_constants_of_integers(constant: str, expected: list[int]) -> None:
    subject = normal(
        f"g (int64[2] x) => (int64[2] y) {{ c = Constant<{constant}>()  y = Mul(x, c) }}"
    )
    np.testing.assert_array_equal(run(subject.ir, {"x": np.ones(2, np.int64)})["y"], expected)


def test_constant_that_is_an_output_stays_valid() -> None:
    subject = normal(
        """g (float[2] x) => (float[2] y, float c) {
            c = Constant<value_float = 3.0>()
            y = Mul(x, c)
        }"""
    )
    assert run(subject.ir, {"x": np.ones(2, np.float32)})["c"] == 3


def test_weights_of_constants_in_subgraphs_reach_the_main_graph() -> None:
    values = ", ".join(str(float(i)) for i in range(300))
    subject = normal(
        f"""g (float[300] x, bool c) => (float[300] y) {{
            y = If(c) <
                then_branch = t () => (float[300] a) {{
                    w = Constant<value_floats = [{values}]>()
                    a = Add(x, w)
                }},
                else_branch = e () => (float[300] b) {{
                    w = Constant<value_floats = [{values}]>()
                    b = Sub(x, w)
                }}
            >
        }}"""
    )
    assert len(subject.ir.graph.initializers) == 1
    x, ramp = np.ones(300, np.float32), np.arange(300)
    np.testing.assert_array_equal(run(subject.ir, {"x": x, "c": np.array(True)})["y"], 1 + ramp)
    np.testing.assert_array_equal(run(subject.ir, {"x": x, "c": np.array(False)})["y"], 1 - ramp)


def same_padding(source: str, target: str, kernel: int) -> str:
    """What an exporter writes for one SAME-padded convolution with stride 2, as it is met."""
    lines = [f"s_{target} = Shape({source})"]
    for axis, index in (("h", "two"), ("w", "three")):
        name = f"{axis}_{target}"
        lines += [
            f"{name} = Gather<axis = 0>(s_{target}, {index})",
            f"{name}f = Cast<to = 1>({name})",
            f"{name}d = Div({name}f, twof)",
            f"{name}c = Ceil({name}d)",
            f"{name}i = Cast<to = 7>({name}c)",
            f"{name}m = Sub({name}i, one)",
            f"{name}t = Mul({name}m, two)",
            f"{name}k = Add({name}t, k{kernel})",
            f"{name}p = Sub({name}k, {name})",
            f"{name}z = Max({name}p, zero)",
            f"{name}b = Div({name}z, two)",
            f"{name}e = Sub({name}z, {name}b)",
            f"{name}b1 = Unsqueeze({name}b, first)",
            f"{name}e1 = Unsqueeze({name}e, first)",
        ]
    h, w = f"h_{target}", f"w_{target}"
    return "\n".join(
        [
            *lines,
            f"p_{target} = Concat<axis = 0>(none, {h}b1, {w}b1, none, {h}e1, {w}e1)",
            f"q_{target} = Pad({source}, p_{target})",
            f"{target} = Conv<strides = [2, 2]>(q_{target}, w{kernel})",
        ]
    )


def test_chain_of_same_paddings_folds_once_height_and_width_are_static() -> None:
    weights: dict[str, Array] = {
        "w3": RNG.standard_normal((3, 3, 3, 3)).astype(np.float32),
        "w5": RNG.standard_normal((3, 3, 5, 5)).astype(np.float32),
        "none": np.zeros(2, np.int64),
        "first": np.zeros(1, np.int64),
        "twof": np.array(2, np.float32),
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "three": np.array(3),
        "k3": np.array(3),
        "k5": np.array(5),
    }
    text = f"""g (float[n, 3, 30, 30] x) => (float[n, 3, 4, 4] c) {{
        {same_padding("x", "a", 3)}
        {same_padding("a", "b", 5)}
        {same_padding("b", "c", 3)}
    }}"""
    original = model(text, weights)
    subject = passes.normalise(original)
    assert operators(subject.ir) == ["Pad", "Conv"] * 3
    x = RNG.standard_normal((2, 3, 30, 30)).astype(np.float32)
    np.testing.assert_allclose(
        run(subject.ir, {"x": x})["c"], run(original.ir, {"x": x})["c"], rtol=1e-5, atol=1e-4
    )


def test_dynamic_dimensions_do_not_fold() -> None:
    subject = normal("g (float[n, 3] x) => (int64[2] y) { s = Shape(x)  y = Identity(s) }")
    shape = run(subject.ir, {"x": np.zeros((5, 3), np.float32)})["y"]
    np.testing.assert_array_equal(shape, [5, 3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = Gather<axis = 0>(s, i)", 3),
        ("t = Slice(s, one, three)  y = Gather<axis = 0>(t, zero)", 3),
    ],
)
def test_static_part_of_a_shape_folds(text: str, expected: int) -> None:
    subject = normal(
        f"g (float[n, 3, 4] x) => (int64 z) {{ s = Shape(x)  {text}  z = Add(y, zero) }}",
        {
            "i": np.array(1),
            "zero": np.array(0),
            "one": np.array([1]),
            "three": np.array([3]),
        },
    )
    assert "Shape" not in operators(subject.ir)
    assert run(subject.ir, {"x": np.zeros((5, 3, 4), np.float32)})["z"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "w = ConstantOfShape(shape)",
        "w = Expand(one, shape)",
        "w = Tile(row, times)",
        "w = Cast<to = 1>(bytes)",
    ],
)
def test_the_download_does_not_grow(text: str) -> None:
    subject = normal(
        f"g (float[100, 100] x) => (float[100, 100] y) {{ {text}  y = Add(x, w) }}",
        {
            "shape": np.array([100, 100]),
            "one": np.ones((1, 1), np.float32),
            "row": np.ones((1, 100), np.float32),
            "times": np.array([100, 1]),
            "bytes": np.ones((100, 100), np.int8),
        },
    )
    assert len(operators(subject.ir)) == 2
    assert (
        sum(v.const_value.nbytes for v in subject.ir.graph.initializers.values() if v.const_value)
        <= 10_100
    )


def test_a_turned_weight_folds_unless_another_node_reads_it() -> None:
    w = RNG.standard_normal((30, 20)).astype(np.float32)
    alone = normal(
        "g (float[2, 20] x) => (float[2, 30] y) { t = Transpose(w)  y = MatMul(x, t) }", {"w": w}
    )
    assert operators(alone.ir) == ["MatMul"]
    np.testing.assert_array_equal(weight(alone.ir, "t"), w.T)
    tied = normal(
        """g (int64[2] i) => (float[2, 30] y) {
            x = Gather(w, i)
            t = Transpose(w)
            y = MatMul(x, t)
        }""",
        {"w": w},
    )
    assert operators(tied.ir).count("Transpose") == 1


def test_a_weight_cut_in_pieces_folds() -> None:
    w = RNG.standard_normal((30, 20)).astype(np.float32)
    subject = normal(
        """g (float[2, 30] x) => (float[2, 20] y) {
            a = Slice(w, zero, ten)
            b = Slice(w, ten, thirty)
            c = Concat<axis = 0>(b, a)
            y = MatMul(x, c)
        }""",
        {"w": w, "zero": np.array([0]), "ten": np.array([10]), "thirty": np.array([30])},
    )
    assert operators(subject.ir) == ["MatMul"]
    np.testing.assert_array_equal(weight(subject.ir, "c"), np.concatenate([w[10:], w[:10]]))


def test_quantized_storage_is_kept() -> None:
    subject = normal(
        "g (float[4] x) => (float[4] y) { w = DequantizeLinear(q, s)  y = Add(x, w) }",
        {"q": np.arange(4, dtype=np.int8), "s": np.array(0.5, np.float32)},
    )
    assert operators(subject.ir) == ["DequantizeLinear", "Add"]


def test_random_numbers_are_drawn_in_every_run() -> None:
    subject = normal(
        "g (float[4] x) => (float[4] y) { r = RandomNormal<shape = [4]>()  y = Add(x, r) }"
    )
    assert operators(subject.ir) == ["RandomNormal", "Add"]
