"""int4: everything that stock tools pass over goes into 4 bits, with its right value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from builder.errors import ConversionError
from builder.model import Array, Model
from builder.passes.check import validate
from builder.precision import Subject, fp16, int4
from builder.precision.blocks import BLOCK, round_blocks
from builder.precision.compensate import compensated
from builder.snr import snr_of
from tests.precision.small import normal, operators, references, run

RNG = np.random.default_rng(4)
F = np.float32


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of these tests are small; the limit is what is configurable, not what is tested."""
    monkeypatch.setattr(int4, "ELEMENTS", 256)


def convert(of: Model, *inputs: dict[str, Array], tables: bool = False) -> ir.Model:
    subject = Subject(of, references(of, *inputs))
    made = int4.convert(
        of.ir, subject.activations, subject.eighths, subject.quarters, tables=tables
    )
    validate(made.ir, of.signature)
    return made.ir


def noise(*shape: int) -> npt.NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(F)


def bits(graph: ir.Model) -> float:
    """Bytes of all initializers but the smallest."""
    tensors = [value.const_value for value in graph.graph.initializers.values()]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None and tensor.nbytes > 64)


@pytest.mark.parametrize("inputs", [64, 70, 96])
@pytest.mark.parametrize(
    "node",
    [
        "MatMul(x, w)",
        "Gemm(x, w, b)",
        "Gemm<transB = 1>(x, v, b)",
    ],
)
def test_products(node: str, inputs: int) -> None:
    w, b = noise(inputs, 16), noise(16)
    weights: dict[str, Array] = {"w": w, "b": b, "v": np.ascontiguousarray(w.T)}
    used = {name: array for name, array in weights.items() if f"{name}" in node[6:]}
    subject = normal(f"g (float[rows, {inputs}] x) => (float[rows, 16] y) {{ y = {node} }}", used)
    x = noise(200, inputs)
    made = convert(subject, {"x": x})
    assert operators(made).count("MatMulNBits") == 1
    expected = x.astype(np.float64) @ w + (b if "b)" in node else 0)
    # 4 bits of the normal distribution in blocks of 32: about 21 dB, a bit more by fitted ranges.
    assert snr_of(expected, run(made, {"x": x})["y"]) > 20
    assert bits(made) < 0.25 * w.nbytes


def test_a_tied_table_is_stored_once_in_4_bits() -> None:
    table = noise(40, 64)
    subject = normal(
        """g (int64[n] i) => (float[n, 40] y, float[n, 64] e) {
            e = Gather(w, i)
            t = Transpose<perm = [1, 0]>(w)
            r = Relu(e)
            y = MatMul(r, t)
        }""",
        {"w": table},
    )
    i = np.arange(40)
    made = convert(subject, {"i": i})
    out = run(made, {"i": i})
    assert snr_of(table, out["e"]) > 20
    # The product is that of the very same 4 bits.
    np.testing.assert_allclose(out["y"], np.maximum(out["e"], 0) @ out["e"].T, rtol=1e-4, atol=1e-4)
    assert bits(made) < 0.25 * table.nbytes


@pytest.mark.parametrize("width", [64, 96, 50])
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 5)])
def test_rows_of_a_table(width: int, shape: tuple[int, ...]) -> None:
    table = noise(30, width)
    dims = ", ".join(map(str, shape))
    result = ", ".join(map(str, (*shape, width)))
    subject = normal(
        f"g (int64[{dims}] i) => (float[{result}] y) {{ y = Gather(w, i) }}", {"w": table}
    )
    i = RNG.integers(0, 30, shape)
    with pytest.raises(ConversionError, match="no product or tied table"):
        convert(subject, {"i": i})  # tables alone stay in more bits, unless asked for
    narrow = run(convert(subject, {"i": i}, tables=True), {"i": i})["y"]
    assert narrow.shape == (*shape, width)
    assert snr_of(table[i], narrow) > 18


def test_a_stack_of_matrices() -> None:
    w = noise(3, 64, 16)
    subject = normal("g (float[3, 8, 64] x) => (float[3, 8, 16] y) { y = MatMul(x, w) }", {"w": w})
    x = noise(3, 8, 64)
    made = convert(subject, {"x": x})
    assert snr_of(x.astype(np.float64) @ w, run(made, {"x": x})["y"]) > 20
    assert bits(made) < 0.25 * w.nbytes


@pytest.mark.parametrize("node", ["MatMul(x, w)", "Gemm(x, w, b)"])
def test_compute_in_half_reads_the_same_bytes(node: str) -> None:
    weights: dict[str, Array] = {"w": noise(64, 16), "b": noise(16)}
    weights = {name: array for name, array in weights.items() if f" {name})" in node or name == "w"}
    subject = normal(f"g (float[8, 64] x) => (float[8, 16] y) {{ y = {node} }}", weights)
    x = noise(8, 64)
    measured = Subject(subject, references(subject, {"x": x}))
    full = int4.convert(subject.ir, measured.activations, measured.eighths, measured.quarters).ir
    half = fp16.convert(full, measured.ranges).ir
    validate(half, subject.signature)
    for name in ("w_uint4", "w_scales", "w_zeros"):
        tensors = [graph.graph.initializers[name].const_value for graph in (full, half)]
        assert tensors[0] is not None
        assert tensors[1] is not None
        np.testing.assert_array_equal(tensors[0].numpy(), tensors[1].numpy())
    assert snr_of(run(full, {"x": x})["y"], run(half, {"x": x})["y"]) > 50


def test_levels_stand_for_what_they_are_packed_as() -> None:
    # Values on the grid of one block come back exactly: steps of 1 / 8 from -1 to 7 / 8.
    grid = (np.arange(16) - 8) / 8
    weight = np.tile(grid, 4).reshape(64, 1).astype(F)
    blocks = round_blocks(weight, None)
    np.testing.assert_array_equal(blocks.dense, weight)
    assert blocks.levels.shape == (1, 2, BLOCK // 2)
    assert blocks.levels[0, 0, 0] == 0x10, "levels 0 and 1, the earlier one in the low half"
    assert blocks.zeros.tolist() == [[0x88]]


def test_compensation_lowers_the_error_where_inputs_go_together() -> None:
    mix = noise(64, 64) * np.linspace(0.02, 1, 64, dtype=F)
    x = noise(2000, 8) @ noise(8, 64) @ mix
    weight = noise(64, 16)

    def coarse(_k: int, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.asarray(np.rint(rows[0] * 2) / 2, F)

    exact = x @ weight
    error = [
        float(np.square(x @ compensated(weight, gram, coarse) - exact).mean())
        for gram in (None, np.asarray(x.T @ x, F))
    ]
    assert error[1] < 0.25 * error[0]


def test_without_calibration_rounding_is_to_the_nearest() -> None:
    weight = noise(8, 4)
    rounded = compensated(weight, np.zeros((8, 8), F), lambda _k, rows: np.rint(rows[0]))
    np.testing.assert_array_equal(rounded, np.rint(weight))
