"""Bodies of If, Loop and Scan in half: what is measured inside, which nodes are halved, the values.

Right values are computed with numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from builder.model import Array, Model
from builder.passes.base import nodes_of
from builder.passes.check import validate
from builder.precision import fp16
from builder.precision.emulate import emulated
from builder.precision.half_plan import AFTER_EPSILON, EPSILON, UNSEEN
from builder.precision.ranges import Ranges, measure
from tests.precision.small import normal, references, run

HALF = ir.DataType.FLOAT16
Floats = npt.NDArray[np.float32]

W: Floats = np.array([0.1, 0.2, 1 / 3], np.float32)
X: Floats = np.array([1.5, -2, 3], np.float32)


def measured(model: Model, *inputs: dict[str, Array]) -> Ranges:
    return measure(model.ir, references(model, *inputs))


def convert(model: Model, *inputs: dict[str, Array]) -> fp16.Halved:
    """Both conversions, valid and nearly right by both ways to run them."""
    ranges = measured(model, *inputs)
    stored, halved = fp16.store(model.ir, ranges), fp16.convert(model.ir, ranges)
    for graph in (stored.ir, halved.ir, emulated(halved.ir)):
        validate(graph, model.signature)
        for feed in inputs:
            right, got = run(model.ir, feed), run(graph, feed)
            for name in right:
                close(got[name], right[name], 4e-3, 4e-3)
    return halved


def emulate(halved: fp16.Halved, feed: Mapping[str, Array]) -> dict[str, Any]:
    """What a device with half precision makes of it."""
    return run(emulated(halved.ir), feed)


def close(got: Any, right: Any, relative: float, absolute: float = 0) -> None:
    np.testing.assert_allclose(got, right, rtol=relative, atol=absolute)


def in_half(halved: fp16.Halved) -> set[str]:
    """Operators that give half, casts apart, in all graphs."""
    return {
        node.op_type
        for node in nodes_of(halved.ir)
        if node.op_type != "Cast" and node.outputs[0].dtype == HALF
    }


BRANCHES = """g (float[3] x, bool c) => (float[3] y) {
    a = Relu(x)
    s = Sin(x)
    m = Mul(x, w)
    y = If (c) <
        then_branch = yes () => (float[3] t) {
            p = Mul(a, w)
            q = Mod<fmod = 1>(s, w)
            t = Add(p, q)
        },
        else_branch = no () => (float[3] e) { d = Sub(m, w)  e = Neg(d) }
    >
}"""


@pytest.mark.parametrize("flag", [True, False])
def test_branches_capture_halves_floats_and_shared_weights(flag: bool) -> None:
    model = normal(BRANCHES, {"w": W})
    feeds: list[dict[str, Array]] = [{"x": X, "c": np.array(c)} for c in (True, False)]
    halved = convert(model, *feeds)
    assert in_half(halved) == {"Relu", "Mul", "Add", "Sub", "Neg"}
    # What Mod reads is exact; the others share one rounded copy.
    np.testing.assert_array_equal(
        halved.ir.graph.initializers["w"].const_value.numpy(),  # type: ignore[union-attr]
        W,
    )
    half = {name: array.astype(np.float16) for name, array in (("x", X), ("w", W))}
    if flag:
        rest = np.fmod(np.sin(X), W).astype(np.float16)
        expected = np.maximum(half["x"], 0) * half["w"] + rest
    else:
        expected = -(half["x"] * half["w"] - half["w"])
    got = emulate(halved, {"x": X, "c": np.array(flag)})
    np.testing.assert_allclose(got["y"], expected, rtol=1e-3)  # one ulp: sin() isn't numpy's
    assert got["y"].dtype == np.float32


def test_a_branch_that_no_reference_takes_stays_fp32() -> None:
    model = normal(BRANCHES, {"w": W})
    halved = convert(model, {"x": X, "c": np.array(True)})
    unseen = {node.op_type for node in halved.kept if node.reason == UNSEEN}
    assert unseen == {"Sub", "Neg"}
    got = run(halved.ir, {"x": X, "c": np.array(False)})["y"]
    np.testing.assert_allclose(got, -(X * W - W), rtol=1e-3)


LOOP = """g (int64 n, float[3] x) => (float[3] last, float[k, 3] all) {
    go = Constant<value = bool {1}>()
    a = Abs(x)
    last, all = Loop (n, go, x) <
        body = step (int64 i, bool cond, float[3] v)
            => (bool again, float[3] grown, float[3] seen) {
            again = Identity(cond)
            scaled = Mul(v, four)
            grown = Add(scaled, a)
            bent = Tanh(v)
            seen = Mul(bent, w)
        }
    >
}"""


def test_a_loop_carries_fp32_and_halves_what_stays_small() -> None:
    model = normal(LOOP, {"w": W, "four": np.array(4, np.float32)})
    x = np.array([1, -2, 0.5], np.float32)
    feed: dict[str, Array] = {"n": np.array(10), "x": x}
    ranges = measured(model, feed)
    v, given, out = x, [], []
    for _ in range(10):
        given.append(v)
        v = v * 4 + np.abs(x)
        out.append(np.tanh(given[-1]) * W)
    assert (ranges.values["grown"].low, ranges.values["grown"].high) == (
        np.min([*given[1:], v]),
        np.max([*given[1:], v]),
    )
    assert ranges.values["v"].high == np.max(given)
    assert ranges.values["i"].high == 9
    halved = convert(model, {"n": np.array(3), "x": x})
    assert in_half(halved) == {"Abs", "Mul", "Add", "Tanh"}
    wide = fp16.convert(model.ir, ranges)
    assert in_half(wide) == {"Abs", "Mul"}  # v reaches 700,000; only its tanh, times w, is half
    got = emulate(wide, feed)
    np.testing.assert_allclose(got["last"], v, rtol=1e-3)
    np.testing.assert_allclose(got["all"], out, rtol=2e-3)


def test_a_loop_that_never_ran_is_not_measured() -> None:
    model = normal(LOOP, {"w": W, "four": np.array(4, np.float32)})
    halved = convert(model, {"n": np.array(0), "x": X})
    assert in_half(halved) == {"Abs"}
    assert {node.op_type for node in halved.kept if node.reason == UNSEEN} == {"Mul", "Add", "Tanh"}
    got = run(halved.ir, {"n": np.array(2), "x": X})
    np.testing.assert_allclose(got["last"], (X * 4 + np.abs(X)) * 4 + np.abs(X), rtol=1e-3)


SCAN = """g (float[2] start, float[5, 2] x) => (float[2] last, float[2, 5] all) {
    h = Neg(x)
    last, all = Scan (start, h) <
        num_scan_inputs = 1, scan_output_axes = [1],
        body = step (float[2] state, float[2] row) => (float[2] next, float[2] given) {
            turned = MatMul(state, square)
            sum = Add(turned, row)
            next = Sigmoid(sum)
            given = Mul(next, w)
        }
    >
}"""


def test_a_scan_is_right_in_half() -> None:
    rng = np.random.default_rng(0)
    square = rng.uniform(-1, 1, (2, 2)).astype(np.float32)
    w = np.array([0.3, 3], np.float32)
    model = normal(SCAN, {"square": square, "w": w})
    x = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
    start = np.array([1, -1], np.float32)
    feed: dict[str, Array] = {"start": start, "x": x}
    halved = convert(model, feed)
    assert in_half(halved) == {"Neg", "MatMul", "Add", "Sigmoid", "Mul"}
    state, rows = start, []
    for row in x:
        state = 1 / (1 + np.exp(-(state @ square - row)))
        rows.append(state * w)
    got = run(halved.ir, feed)
    np.testing.assert_allclose(got["last"], state, rtol=3e-3)
    np.testing.assert_allclose(got["all"], np.stack(rows, axis=1), rtol=3e-3)


NESTED = """g (int64 n, float[3] x) => (float[3] y) {
    go = Constant<value = bool {1}>()
    a = Abs(x)
    y = Loop (n, go, x) <
        body = step (int64 i, bool cond, float[3] v) => (bool again, float[3] next) {
            again = Identity(cond)
            b = Mul(v, half)
            first = Equal(i, zero)
            next = If (first) <
                then_branch = yes () => (float[3] t) { t = Add(a, b) },
                else_branch = no () => (float[3] e) {
                    deep = Mul(b, mine)
                    e = Sub(deep, w)
                }
            >
        }
    >
}"""


def test_nested_bodies() -> None:
    mine = np.array([3, 0.7, 1e-2], np.float32)
    weights: dict[str, Array] = {
        "w": W,
        "half": np.array(0.5, np.float32),
        "zero": np.array(0, np.int64),
        "mine": mine,
    }
    model = normal(NESTED, weights)
    feed: dict[str, Array] = {"n": np.array(3), "x": X}
    halved = convert(model, feed)
    assert in_half(halved) == {"Abs", "Mul", "Add", "Sub"}
    v = X
    for index in range(3):
        b = v * np.float32(0.5)
        v = np.abs(X) + b if index == 0 else b * mine - W
    np.testing.assert_allclose(run(halved.ir, feed)["y"], v, rtol=4e-3, atol=1e-3)
    np.testing.assert_allclose(emulate(halved, feed)["y"], v, rtol=4e-3, atol=1e-3)
    once = convert(model, {"n": np.array(1), "x": X})
    assert {node.op_type for node in once.kept if node.reason == UNSEEN} == {"Mul", "Sub"}


def test_sums_inside_bodies_are_bounded() -> None:
    model = normal(
        """g (float[2, 4] x, bool c) => (float[2, 1] y) {
            y = If (c) <
                then_branch = yes () => (float[2, 1] t) {
                    z = Relu(x)
                    r = ReduceL2<keepdims = 1>(z, last)
                    s = ReduceSum<keepdims = 1>(z, last)
                    t = Sub(r, s)
                },
                else_branch = no () => (float[2, 1] e) { e = ReduceMax<keepdims = 1>(x, last) }
            >
        }""",
        {"last": np.array([-1])},
    )
    x = np.array([[100, 100, 100, 100], [-3, 1, 0, 0]], np.float32)
    feeds: list[dict[str, Array]] = [{"x": x, "c": np.array(c)} for c in (True, False)]
    ranges = measured(model, *feeds)
    names = {node.op_type: node.name for node in nodes_of(model.ir)}
    assert ranges.inner[names["ReduceL2"] or ""] == 40001  # bounds run over all of z
    assert ranges.inner[names["ReduceSum"] or ""] == 401
    halved = convert(model, *feeds)
    assert in_half(halved) == {"Relu", "ReduceSum", "ReduceMax", "Sub"}


def test_nan_inside_a_body_is_not_halved() -> None:
    model = normal(
        """g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <
                then_branch = yes () => (float[3] t) { l = Log(x)  t = Max(l, x) },
                else_branch = no () => (float[3] e) { e = Neg(x) }
            >
        }"""
    )
    ranges = measured(model, {"x": X, "c": np.array(True)})
    assert (ranges.values["l"].low, ranges.values["l"].high) == (-np.inf, np.inf)


def test_an_epsilon_is_kept_from_one_iteration_to_the_next() -> None:
    model = normal(
        """g (int64 n, float[3] x) => (float[3] y, float[3] z) {
            go = Constant<value = bool {1}>()
            y, z = Loop (n, go, x, x) <
                body = step (int64 i, bool cond, float[3] v, float[3] u)
                    => (bool again, float[3] added, float[3] part) {
                    again = Identity(cond)
                    part = Div(u, v)
                    square = Mul(u, u)
                    added = Add(square, tiny)
                }
            >
        }""",
        {"tiny": np.array(1e-7, np.float32)},
    )
    x = np.array([1.5, 2, 3], np.float32)
    halved = convert(model, {"n": np.array(2), "x": x})
    reasons = {node.op_type: node.reason for node in halved.kept}
    assert reasons["Add"] == EPSILON
    assert reasons["Div"] == AFTER_EPSILON
    assert in_half(halved) == {"Mul"}


def test_a_counter_of_floats_that_becomes_an_integer_is_exact() -> None:
    model = normal(
        """g (int64 n) => (int64 y) {
            go = Constant<value = bool {1}>()
            end = Loop (n, go, start) <
                body = step (int64 i, bool cond, float c) => (bool again, float next) {
                    again = Identity(cond)
                    next = Add(c, one)
                }
            >
            y = Cast<to = 7>(end)
        }""",
        {"start": np.array(0, np.float32), "one": np.array(1, np.float32)},
    )
    halved = convert(model, {"n": np.array(5)})
    assert in_half(halved) == set()
    assert run(halved.ir, {"n": np.array(4001)})["y"] == 4001


def test_a_mask_inside_a_body_becomes_finite() -> None:
    model = normal(
        """g (float[2, 3] x, bool[2, 3] m, bool c) => (float[2, 3] y) {
            y = If (c) <
                then_branch = yes () => (float[2, 3] t) {
                    k = Where(m, zero, low)
                    s = Add(x, k)
                    t = Softmax(s)
                },
                else_branch = no () => (float[2, 3] e) { e = Relu(x) }
            >
        }""",
        {"zero": np.array(0, np.float32), "low": np.array(-1e12, np.float32)},
    )
    x = np.array([[1, 2, 3], [0, 0, 5]], np.float32)
    mask = np.array([[True, True, False], [True, True, True]])
    feeds: list[dict[str, Array]] = [{"x": x, "m": mask, "c": np.array(c)} for c in (True, False)]
    halved = convert(model, *feeds)
    assert in_half(halved) == {"Where", "Add", "Softmax", "Relu"}
    weights = np.exp(x - x.max(axis=1, keepdims=True)) * mask
    expected = weights / weights.sum(axis=1, keepdims=True)
    got = emulate(halved, feeds[0])["y"]
    # The second row's largest stands at 5: the rest of it is small, but there.
    np.testing.assert_allclose(got[0], [1 / (1 + np.e), np.e / (1 + np.e), 0], atol=1e-3)
    np.testing.assert_allclose(got[1], expected[1], atol=1e-3)
