"""Shapes, types and signatures that other converters and optimizers break: values by numpy."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder import passes
from builder.model import Array, Model, Provenance, Signature
from builder.passes.check import validate
from builder.precision import fp16
from builder.precision.ranges import measure
from tests.close import assert_close
from tests.precision.small import input_dtypes, normal, references, run

F = np.float32


def halve(subject: Model, *inputs: dict[str, Array]) -> ir.Model:
    """Convert with the ranges of these inputs, and check the post-condition."""
    halved = fp16.convert(subject.ir, measure(subject.ir, references(subject, *inputs))).ir
    validate(halved, subject.signature)
    return halved


RESIZE = """g (float[1, 1, h, 2] x, int64[2] target) => (float[1, 1, a, b] y) {
    r = Relu(x)
    s = Shape<start = 2>(x)
    have = Cast<to = 1>(s)
    want = Cast<to = 1>(target)
    factors = Div(want, have)
    scales = Concat<axis = 0>(ones, factors)
    y = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
        nearest_mode = "floor">(r, , scales)
}"""


def test_resize_by_factors_computed_in_the_graph() -> None:
    subject = normal(RESIZE, {"ones": np.ones(2, F)})
    x = np.array([[[[1, 2], [3, 4]]]], F)
    inputs: dict[str, Array] = {"x": x, "target": np.array([4, 6])}
    halved = halve(subject, inputs)
    assert input_dtypes(halved, "Resize") == [["FLOAT16", "FLOAT"]]
    np.testing.assert_array_equal(run(halved, inputs)["y"], x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize(("have", "want"), [(7, 3), (224, 447)])
def test_resize_by_factors_that_half_would_round(have: int, want: int) -> None:
    subject = normal(RESIZE, {"ones": np.ones(2, F)})
    inputs: dict[str, Array] = {
        "x": np.ones((1, 1, have, 2), F),
        "target": np.array([want, 2]),
    }
    assert run(halve(subject, inputs), inputs)["y"].shape == (1, 1, want, 2)


def test_size_computed_from_a_shape_in_floats() -> None:
    subject = normal(
        """g (float[h] x) => (float[a] y) {
            r = Relu(x)
            s = Shape(x)
            f = Cast<to = 1>(s)
            m = Mul(f, factor)
            w = Floor(m)
            n = Cast<to = 7>(w)
            y = Slice(r, zero, n)
        }""",
        {"factor": np.array([0.57], F), "zero": np.array([0])},
    )
    x = np.arange(100, dtype=F)
    halved = halve(subject, {"x": x[:10]})
    np.testing.assert_array_equal(run(halved, {"x": x[:10]})["y"], x[:5])
    np.testing.assert_array_equal(run(halved, {"x": x})["y"], x[:57])


def test_region_of_interest_keeps_its_corners() -> None:
    subject = normal(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y) {
            r = Relu(x)
            y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(
                r, roi, scales)
        }""",
        {
            "roi": np.array([0, 0, 1 / 3, 1 / 3, 1, 1, 1, 1], F),
            "scales": np.array([1, 1, 0.75, 0.75], F),
        },
    )
    x = (np.arange(16).reshape(1, 1, 4, 4) * 100).astype(F)
    halved = halve(subject, {"x": x})
    assert input_dtypes(halved, "Resize") == [["FLOAT16", "FLOAT", "FLOAT"]]
    # The region from 1 / 3 to 1 is pixels 1, 2 and 3; 0.3333 in half would be 0.24 off.
    assert_close(run(halved, {"x": x})["y"], x[:, :, 1:, 1:], atol=1e-2)


def test_empty_tensor_in_a_concat_stays_empty() -> None:
    subject = normal(
        "g (float[2] x) => (float[2] y) { r = Relu(x)  y = Concat<axis = 0>(none, r, none) }",
        {"none": np.zeros(0, F)},
    )
    x = np.array([1, -2], F)
    np.testing.assert_array_equal(run(halve(subject, {"x": x}), {"x": x})["y"], [1, 0])


def shuffled() -> Model:
    """a = relu(x), b = -a, c = b + w, all outputs, in the order b, c, a."""
    nodes = [
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Add", ["b", "w"], ["c"]),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xabc"]
    w = numpy_helper.from_array(np.array([0.5, 0.25], F), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [w])
    opsets = [helper.make_opsetid("", 18)]
    found = ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    return Model(found, Signature.of(found.graph), Provenance("shuffled"))


def test_source_whose_nodes_are_not_sorted() -> None:
    subject = passes.normalise(shuffled())
    x = np.array([1, -2], F)
    halved = halve(subject, {"x": x})
    for graph in (subject.ir, halved):
        out = run(graph, {"x": x})
        np.testing.assert_array_equal(out["a"], [1, 0])
        np.testing.assert_array_equal(out["b"], [-1, 0])
        np.testing.assert_array_equal(out["c"], [-0.5, 0.25])


X3 = np.arange(27, dtype=F).reshape(1, 1, 3, 3, 3)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("MaxPool<kernel_shape = [3, 3, 3]>(r)", 26),
        ("AveragePool<kernel_shape = [3, 3, 3]>(r)", 13),
        ("GlobalAveragePool(r)", 13),
        ("GlobalMaxPool(r)", 26),
        ("ConvTranspose<pads = [1, 1, 1, 1, 1, 1]>(r, w)", 351),  # 0 + 1 + ... + 26
    ],
)
def test_operators_over_volumes_stay_fp32(node: str, expected: float) -> None:
    subject = normal(
        f"g (float[1, 1, 3, 3, 3] x) => (float[1, 1, a, b, c] y) {{ r = Relu(x)  y = {node} }}",
        {"w": np.ones((1, 1, 3, 3, 3), F)},
    )
    halved = halve(subject, {"x": X3})
    op_type = node.partition("<")[0].partition("(")[0]
    assert set(input_dtypes(halved, op_type)[0]) == {"FLOAT"}
    y = run(halved, {"x": X3})["y"]
    assert y[tuple(extent // 2 for extent in y.shape)] == expected


def test_convolution_over_a_volume_of_unknown_rank_stays_fp32() -> None:
    subject = normal(
        """g (float[n] x, int64[k] shape) => (float[a, b, c, d, e] y) {
            v = Reshape(x, shape)
            y = Conv(v, w)
        }""",
        {"w": np.ones((1, 1, 3, 3, 3), F)},
    )
    inputs: dict[str, Array] = {"x": X3.reshape(-1), "shape": np.array(X3.shape)}
    halved = halve(subject, inputs)
    assert run(halved, inputs)["y"].item() == 351
    assert input_dtypes(halved, "Conv") == [["FLOAT", "FLOAT"]]
