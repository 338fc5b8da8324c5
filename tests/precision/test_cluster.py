"""Clustering: the values that are chosen, how they are stored, and that the runtime folds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from builder.model import Model
from builder.precision import FORMS, Demand, Ladder, Lighter, Subject, make
from builder.precision.cluster import clustered, k_means
from tests.precision.small import normal, operators, references, run, run_in_half, weight

FORM = {form.name: form for form in FORMS}
RNG = np.random.default_rng(11)


def test_groups_get_their_means() -> None:
    points = np.array([9, 1, 10, 2, 11, 3, -50], np.float32)
    np.testing.assert_array_equal(k_means(points, 3), [-50, 2, 10])


def test_few_values_are_taken_as_they_are() -> None:
    points = np.array([3, -1, 3, 7, -1], np.float32)
    np.testing.assert_array_equal(k_means(points, 8), [-1, 3, 7])
    assert k_means(np.zeros(0, np.float32), 4).size == 0


@pytest.mark.parametrize(("count", "distortion"), [(4, 0.1175), (16, 0.009497), (32, 0.002499)])
def test_normal_noise_gets_the_best_values_there_are(count: int, distortion: float) -> None:
    # Max, "Quantizing for Minimum Distortion" (1960), table I.
    points = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    values = k_means(points, count)
    assert values.size == count
    nearest = np.abs(points[:, None] - values).min(axis=1)
    assert np.mean(nearest**2) == pytest.approx(distortion, rel=0.02)
    if count == 4:
        np.testing.assert_allclose(values, [-1.510, -0.4528, 0.4528, 1.510], atol=0.01)


def test_columns_share_values_but_not_their_scale() -> None:
    matrix = RNG.standard_normal((512, 16)) * np.logspace(-3, 3, 16)
    made = clustered(matrix.astype(np.float32), 32, None)
    assert made.values.size == 32
    error = np.linalg.norm(made.dense - matrix, axis=0) / np.linalg.norm(matrix, axis=0)
    assert error.max() < 0.1  # of 32 values 0.05 is to be had
    for column in made.dense.T:
        assert np.unique(column).size <= 32


def test_zeros_stay_zeros_and_take_one_of_the_values() -> None:
    matrix = RNG.standard_normal((64, 64)).astype(np.float32)
    matrix[np.abs(matrix) < 0.7] = 0
    x = RNG.standard_normal((256, 64)).astype(np.float32)
    for gram in (None, x.T @ x):
        made = clustered(matrix, 8, gram)
        assert made.values.size == 8
        assert 0 in made.values
        assert not made.dense[matrix == 0].any()


def test_with_compensation_the_result_is_nearer() -> None:
    x = RNG.standard_normal((512, 16)) @ RNG.standard_normal((16, 64))
    x += 0.1 * RNG.standard_normal(x.shape)
    second = (x.T @ x).astype(np.float32)
    matrix = RNG.standard_normal((64, 32)).astype(np.float32)
    made = [clustered(matrix, 8, gram).dense for gram in (None, second)]
    lost = [np.linalg.norm(x @ np.subtract(matrix, dense)) for dense in made]
    assert lost[1] < 0.5 * lost[0]


def net() -> Subject:
    """A table that is looked up, a pointwise convolution and a product, 16,384 weights each."""
    weights = {
        "table": RNG.standard_normal((256, 64)).astype(np.float32),
        "kernel": (RNG.standard_normal((256, 64, 1)) / 8).astype(np.float32),
        "matrix": (RNG.standard_normal((256, 64)) / 16).astype(np.float32),
    }
    model: Model = normal(
        """g (int64[1, n] ids) => (float[1, n, 64] y) {
            rows = Gather(table, ids)
            turned = Transpose <perm = [0, 2, 1]> (rows)
            wide = Conv(turned, kernel)
            back = Transpose <perm = [0, 2, 1]> (wide)
            y = MatMul(back, matrix)
        }""",
        weights,
    )
    feeds = [{"ids": RNG.integers(0, 256, (1, 48))} for _ in range(4)]
    return Subject(model, references(model, *feeds))


@pytest.fixture(scope="module")
def made() -> dict[str, Lighter]:
    """The first form of each type, and the subject that its others are made from."""
    subject = net()
    ladder, found = Ladder(subject, {"cluster": 32}), {}
    for name in ("fp32", "fp16", "int8"):
        demand = Demand("snr", tolerance=15, held_to="int8", wire=True)
        plain = make(subject, FORM[name], demand)
        assert plain is not None
        found[name] = ladder.climb(FORM[name], demand, plain)
    return found


def graph(lighter: Lighter) -> ir.Model:
    assert lighter.outcome.ir is not None, lighter.outcome.reason
    return lighter.outcome.ir


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
def test_every_type_reads_the_same_indices(made: dict[str, Lighter], name: str) -> None:
    (passed,) = made[name].passed
    assert passed.kept, passed.reason
    assert passed.layers == (3, 3)
    for layer in ("table", "kernel", "matrix"):
        stored = weight(graph(made[name]), f"{layer}_indices")
        assert stored.dtype == np.uint8
        np.testing.assert_array_equal(stored, weight(graph(made["fp32"]), f"{layer}_indices"))
        assert weight(graph(made[name]), f"{layer}_values").size == 32


def test_five_bits_of_eight_go_over_the_wire(made: dict[str, Lighter]) -> None:
    (passed,) = made["fp32"].passed
    weights = 3 * 16_384
    assert passed.before[0] > 4 * weights
    assert weights < passed.after[0] < 1.2 * weights
    assert 5 / 8 * 0.9 * weights < passed.after[1] < 0.8 * weights


def test_the_runtime_folds_what_is_no_table(made: dict[str, Lighter], tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    content = ir.to_proto(graph(made["fp32"])).SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    folded = onnx.load(tmp_path / "folded.onnx")
    types = [node.op_type for node in folded.graph.node]
    # Of the table rows, their scales and their values are looked up; nothing else is left.
    assert sorted(t for t in types if t not in ("Transpose", "Conv", "MatMul")) == [
        *["Cast"],
        *["Gather"] * 3,
        *["Mul"],
    ]
    sizes = {len(t.raw_data) for t in folded.graph.initializer if t.data_type == 1}
    assert 4 * 16_384 in sizes
    assert not any(
        t.name.startswith("table") and len(t.raw_data) > 20_000 for t in folded.graph.initializer
    )


def test_the_result_is_that_of_the_values(made: dict[str, Lighter]) -> None:
    stored = graph(made["fp32"])

    def dense(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        values, indices = weight(stored, f"{name}_values"), weight(stored, f"{name}_indices")
        return np.asarray(values[indices] * weight(stored, f"{name}_scale"), np.float32)

    ids = np.arange(256)[None]
    wide = dense("table")[ids[0]] @ dense("kernel")[:, :, 0].T
    bias = next(n for n in stored.graph if n.op_type == "Conv").inputs
    if len(bias) > 2 and bias[2] is not None:
        wide = wide + weight(stored, bias[2].name or "")
    expected = wide @ dense("matrix")
    np.testing.assert_allclose(run(stored, {"ids": ids})["y"][0], expected, rtol=1e-4, atol=1e-4)


def test_half_arithmetic_reads_them_too(made: dict[str, Lighter]) -> None:
    subject = made["fp16"].subject
    half = make(subject, FORM["fp16-half"], Demand("snr", tolerance=15, held_to="int8"))
    assert half is not None
    assert half.ir is not None, half.reason
    assert "MatMul" in operators(half.ir)
    feed = subject.references[0].inputs
    expected, got = run(graph(made["fp16"]), feed)["y"], run_in_half(half.ir, feed)["y"]
    assert np.linalg.norm(got - expected) < 0.01 * np.linalg.norm(expected)


def test_four_bits_are_left_as_they_are() -> None:
    subject = net()
    demand = Demand("snr", tolerance=8, wire=True)
    plain = make(subject, FORM["q4"], demand)
    assert plain is not None
    found = Ladder(subject, {"cluster": 32}).climb(FORM["q4"], demand, plain)
    assert found.outcome is plain
    assert [passed.reason for passed in found.passed] == [
        "Left as it is: 4 bits are fewer than an index has"
    ]


def test_the_same_model_gives_the_same_bytes() -> None:
    subject = net()
    demand = Demand("snr", tolerance=15, held_to="int8", wire=True)
    contents = []
    for _ in range(2):
        again = Subject(subject.model, subject.references)
        plain = make(again, FORM["fp32"], demand)
        assert plain is not None
        lighter = Ladder(again, {"prune": 0.2, "cluster": 16}).climb(FORM["fp32"], demand, plain)
        assert [passed.kept for passed in lighter.passed] == [True, True]
        contents.append(ir.to_proto(graph(lighter)).SerializeToString(deterministic=True))
    assert contents[0] == contents[1]
