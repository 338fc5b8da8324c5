"""int8: right axes, right values, and products in 8 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from builder.model import Array, Model
from builder.passes.check import validate
from builder.precision import Subject, int8
from builder.snr import snr_of
from tests.precision.small import model, normal, operators, references, run, weight

RNG = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of these tests are small; the limits are what is configurable, not what is tested."""
    monkeypatch.setattr(int8, "INT8_ELEMENTS", 64)
    monkeypatch.setattr(int8, "FP16_ELEMENTS", 8)


def noise(*shape: int) -> npt.NDArray[np.float32]:
    """Weights whose channels differ in size along every axis."""
    array = RNG.standard_normal(shape)
    for axis in range(len(shape)):
        factors = np.logspace(-0.5, 0.5, shape[axis])
        array = array * np.expand_dims(factors, tuple(i for i in range(len(shape)) if i != axis))
    return array.astype(np.float32)


def convert(of: Model, *inputs: dict[str, Array]) -> ir.Model:
    subject = Subject(of, references(of, *inputs))
    quantized = int8.convert(of.ir, subject.activations, subject.eighths).ir
    validate(quantized, of.signature)
    return quantized


def scales(graph: ir.Model) -> list[list[int]]:
    """Shapes of the scales of stored weights, without axes of extent 1."""
    values = graph.graph.initializers.values()
    named = [v for v in values if v.name and v.name.rstrip("_").endswith("_scale")]
    return [[int(d) for d in v.shape.numpy() if d > 1] for v in named if v.shape is not None]


@pytest.mark.parametrize(
    ("text", "shapes", "axis"),
    [
        ("float[1, 8, 5, 5] x) => (float[1, 16, 3, 3] y) { y = Conv(x, w) }", (16, 8, 3, 3), 0),
        (
            "float[1, 8, 5, 5] x) => (float[1, 4, 7, 7] y) { y = ConvTranspose(x, w) }",
            (8, 4, 3, 3),
            1,
        ),
        ("float[3, 16] x) => (float[3, 8] y) { y = MatMul(x, w) }", (16, 8), 1),
        ("float[2, 3, 16] x) => (float[2, 3, 8] y) { y = MatMul(x, w) }", (2, 16, 8), 2),
        ("float[16, 3] x) => (float[8, 3] y) { y = MatMul(w, x) }", (8, 16), 0),
        ("float[3, 16] x) => (float[3, 8] y) { y = Gemm(x, w) }", (16, 8), 1),
        ("float[3, 16] x) => (float[3, 8] y) { y = Gemm<transB = 1>(x, w) }", (8, 16), 0),
    ],
)
def test_scale_for_each_output_channel(text: str, shapes: tuple[int, ...], axis: int) -> None:
    subject = normal(f"g ({text}", {"w": noise(*shapes)})
    spec = subject.signature.inputs[0]
    extents = [dim for dim in spec.shape if isinstance(dim, int)]
    x = RNG.standard_normal(extents).astype(np.float32)
    quantized = convert(subject, {"x": x})
    assert scales(quantized) == [[shapes[axis]]]
    assert snr_of(run(subject.ir, {"x": x})["y"], run(quantized, {"x": x})["y"]) > 30


def test_embedding_has_a_scale_for_each_row() -> None:
    table = noise(16, 8)
    subject = normal("g (int64[3] i) => (float[3, 8] y) { y = Gather(w, i) }", {"w": table})
    i = np.array([0, 7, 15])
    quantized = convert(subject, {"i": i})
    assert scales(quantized) == [[16]]
    assert "DequantizeLinear" not in operators(quantized)
    step = np.abs(table).max(axis=1)[i] / 127
    error = np.abs(run(quantized, {"i": i})["y"] - table[i])
    assert (error <= 0.501 * step[:, None]).all()


def test_tied_weight_is_stored_once() -> None:
    subject = normal(
        """g (int64[3] i) => (float[3, 64] y) {
            e = Gather(w, i)
            t = Transpose<perm = [1, 0]>(w)
            y = MatMul(e, t)
        }""",
        {"w": noise(64, 8)},
    )
    quantized = convert(subject, {"i": np.array([0, 7, 15])})
    assert scales(quantized) == [[64]]
    kinds = [v.dtype for v in quantized.graph.initializers.values() if v.dtype is not None]
    assert kinds.count(ir.DataType.UINT8) == 1


def test_depthwise_convolution_with_uneven_channels() -> None:
    # Per-tensor scales lose every channel but the largest here (1 / 1000 of the range).
    w = RNG.standard_normal((16, 1, 3, 3)).astype(np.float32)
    w *= np.logspace(-3, 1, 16, dtype=np.float32).reshape(-1, 1, 1, 1)
    subject = normal(
        "g (float[1, 16, 8, 8] x) => (float[1, 16, 6, 6] y) { y = Conv<group = 16>(x, w) }",
        {"w": w},
    )
    x = RNG.standard_normal((1, 16, 8, 8)).astype(np.float32)
    exact = run(subject.ir, {"x": x})["y"]
    got = run(convert(subject, {"x": x}), {"x": x})["y"]
    for channel in range(16):
        assert snr_of(exact[:, channel], got[:, channel]) > 30


def test_only_weights_are_quantized() -> None:
    subject = normal(
        "g (float[1, 8, 5, 5] x) => (float[1, 16, 3, 3] y) { y = Conv(x, w, b) }",
        {"w": noise(16, 8, 3, 3), "b": noise(16)},
    )
    quantized = convert(subject, {"x": RNG.standard_normal((1, 8, 5, 5)).astype(np.float32)})
    assert operators(quantized) == ["Cast", "Sub", "Mul", "Conv"]
    bias = quantized.graph[-1].inputs[2]
    assert bias is not None
    assert bias.dtype == ir.DataType.FLOAT


def test_bias_takes_what_rounding_shifts() -> None:
    w = noise(16, 8, 1, 1)
    subject = normal(
        "g (float[1, 8, 9, 9] x) => (float[1, 16, 9, 9] y) { y = Conv(x, w, b) }",
        {"w": w, "b": noise(16)},
    )
    x = (RNG.standard_normal((1, 8, 9, 9)) + 5).astype(np.float32)
    exact = run(subject.ir, {"x": x})["y"].mean(axis=(0, 2, 3))
    got = run(convert(subject, {"x": x}), {"x": x})["y"].mean(axis=(0, 2, 3))
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)


def test_bias_of_a_product_and_of_a_gemm() -> None:
    # Small weights, in fp16: those in 8 bits are compensated instead.
    for text in ("m = MatMul(x, w)  y = Add(m, b)", "y = Gemm(x, w, b)"):
        subject = normal(
            f"g (float[64, 16] x) => (float[64, 3] y) {{ {text} }}",
            {"w": noise(16, 3), "b": noise(3)},
        )
        x = (RNG.standard_normal((64, 16)) + 3).astype(np.float32)
        exact = run(subject.ir, {"x": x})["y"].mean(axis=0)
        got = run(convert(subject, {"x": x}), {"x": x})["y"].mean(axis=0)
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_small_weights_are_fp16_and_exact_to_11_bits() -> None:
    w = noise(4, 4)
    subject = normal("g (float[3, 4] x) => (float[3, 4] y) { y = MatMul(x, w) }", {"w": w})
    quantized = convert(subject, {"x": np.ones((3, 4), np.float32)})
    assert operators(quantized) == ["Cast", "MatMul"]
    np.testing.assert_array_equal(weight(quantized, "w_half"), w.astype(np.float16))


@pytest.mark.parametrize("factor", [1e6, 1e-9, np.inf])
def test_what_fp16_cannot_hold_stays_fp32(factor: float) -> None:
    w = (np.ones((4, 4)) * factor).astype(np.float32)
    subject = normal("g (float[3, 4] x) => (float[3, 4] y) { y = MatMul(x, w) }", {"w": w})
    quantized = convert(subject, {"x": np.ones((3, 4), np.float32)})
    assert operators(quantized) == ["MatMul"]
    np.testing.assert_array_equal(weight(quantized, "w"), w)


def test_recurrent_weights() -> None:
    subject = normal(
        """g (float[5, 1, 8] x) => (float[5, 1, 1, 8] y) {
            y = LSTM<hidden_size = 8>(x, w, r)
        }""",
        {"w": noise(1, 32, 8) * np.float32(0.1), "r": noise(1, 32, 8) * np.float32(0.1)},
    )
    x = RNG.standard_normal((5, 1, 8)).astype(np.float32)
    quantized = convert(subject, {"x": x})
    assert scales(quantized) == [[32], [32]]
    assert snr_of(run(subject.ir, {"x": x})["y"], run(quantized, {"x": x})["y"]) > 25


def test_weight_of_a_subgraph() -> None:
    subject = normal(
        """g (float[3, 16] x, bool c) => (float[3, 8] y) {
            y = If(c) <
                then_branch = t () => (float[3, 8] a) { a = MatMul(x, w) },
                else_branch = e () => (float[3, 8] b) { m = MatMul(x, w)  b = Neg(m) }
            >
        }""",
        {"w": noise(16, 8)},
    )
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    feeds: list[dict[str, Array]] = [{"x": x, "c": np.array(flag)} for flag in (True, False)]
    quantized = convert(subject, *feeds)
    assert len(scales(quantized)) == 1
    for feed in feeds:
        assert snr_of(run(subject.ir, feed)["y"], run(quantized, feed)["y"]) > 30


def test_old_opsets_are_as_good() -> None:
    subject = model(
        "g (float[3, 16] x) => (float[3, 8] y) { y = MatMul(x, w) }", {"w": noise(16, 8)}, opset=9
    )
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    quantized = convert(subject, {"x": x})
    assert snr_of(run(subject.ir, {"x": x})["y"], run(quantized, {"x": x})["y"]) > 30


def multiplied(measured: Subject) -> int8.Quantized:
    """With every product in 8 bits."""
    names = frozenset(measured.eighths.rounded)
    return int8.convert(measured.ir, measured.activations, measured.eighths, multiplied=names)


@pytest.mark.parametrize("opset", [12, 18])
@pytest.mark.parametrize(
    "text",
    [
        "float[rows, 32] x) => (float[rows, 16] y) { y = MatMul(x, w) }",
        "float[b, rows, 32] x) => (float[b, rows, 16] y) { y = MatMul(x, w) }",
        "float[rows, 32] x) => (float[rows, 16] y) { y = Gemm<transB = 1>(x, v, bias) }",
    ],
)
def test_products_in_8_bits_keep_rows_apart(text: str, opset: int) -> None:
    w, bias = noise(32, 16), noise(16)
    # A channel of outliers, as transformers have them, and one row a thousand times as large.
    x = RNG.standard_normal((64, 32))
    x[:, 5] *= 60
    x[7] *= 1000
    x = x.astype(np.float32)
    weights = {"v": np.ascontiguousarray(w.T), "bias": bias} if "Gemm" in text else {"w": w}
    subject = normal(f"g ({text}", weights, opset)
    feed = {"x": x.reshape(4, 16, 32) if "b, rows" in text else x}
    measured = Subject(subject, references(subject, feed))
    made = multiplied(measured)
    assert made.multiplied
    validate(made.ir, subject.signature)
    assert "MatMulIntegerToFloat" in operators(made.ir)
    exact = x.astype(np.float64) @ w + (bias if "Gemm" in text else 0)
    got = run(made.ir, feed)["y"].reshape(exact.shape)
    for row in range(64):
        assert snr_of(exact[row], got[row]) > 28


def test_a_row_of_zeros_stays_zero_in_8_bits() -> None:
    subject = normal(
        "g (float[rows, 32] x) => (float[rows, 16] y) { y = MatMul(x, w) }", {"w": noise(32, 16)}
    )
    x = RNG.standard_normal((8, 32)).astype(np.float32)
    x[3] = 0
    measured = Subject(subject, references(subject, {"x": x}))
    made = multiplied(measured)
    np.testing.assert_array_equal(run(made.ir, {"x": x})["y"][3], 0)


def test_both_forms_read_the_same_bytes() -> None:
    text = "g (float[64, 32] x) => (float[64, 16] y) { h = MatMul(x, w) y = MatMul(h, v) }"
    subject = normal(text, {"w": noise(32, 16), "v": noise(16, 16)})
    x = RNG.standard_normal((64, 32)).astype(np.float32)
    measured = Subject(subject, references(subject, {"x": x}))
    eighths = measured.eighths
    plain = int8.convert(subject.ir, measured.activations, eighths)
    partly = int8.convert(subject.ir, measured.activations, eighths, multiplied=frozenset("v"))
    for made in (multiplied(measured), partly):
        for name in ("w_uint8", "v_uint8"):
            np.testing.assert_array_equal(weight(plain.ir, name), weight(made.ir, name))
    # One product is left in fp32, by the same name.
    assert operators(partly.ir).count("MatMulIntegerToFloat") == 1
    assert partly.layers == plain.layers == ("w", "v")


def test_what_is_kept_wider_is_exact_to_fp16() -> None:
    w = noise(32, 16)
    subject = normal("g (float[8, 32] x) => (float[8, 16] y) { y = MatMul(x, w) }", {"w": w})
    x = RNG.standard_normal((8, 32)).astype(np.float32)
    measured = Subject(subject, references(subject, {"x": x}))
    made = int8.convert(subject.ir, measured.activations, measured.eighths, wider=frozenset(["w"]))
    assert made.layers == ()
    np.testing.assert_array_equal(weight(made.ir, "w_half"), w.astype(np.float16))
