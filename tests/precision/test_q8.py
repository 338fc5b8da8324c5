"""q8 and uint8: what is computed in 8 bits is what numpy computes with the same grids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from builder.errors import ConversionError
from builder.model import Model
from builder.passes.check import validate
from builder.precision import FORMS, Demand, Subject, int8, make
from builder.precision.forms import Converted
from builder.recipe import OPT_IN
from builder.snr import snr_of
from builder.webruntime.support import check
from tests.precision.small import model, normal, operators, references, run, weight

RNG = np.random.default_rng(9)
FORM = {form.name: form for form in FORMS}
Float = npt.NDArray[np.float32]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of these tests are small."""
    monkeypatch.setattr(int8, "INT8_ELEMENTS", 64)


def noise(*shape: int) -> Float:
    return RNG.standard_normal(shape).astype(np.float32)


def convert(of: Model, name: str, x: Float, *wider: str) -> Converted:
    made = FORM[name].convert(Subject(of, references(of, {"x": x})), frozenset(wider))
    assert made is not None
    validate(made.ir, of.signature)
    check(made.ir)
    return made


def rounded(x: Float) -> npt.NDArray[np.float64]:
    """On the uint8 grid from the least to the largest element, 0 included."""
    low, high = min(float(x.min()), 0), max(float(x.max()), 0)
    step = np.float32((high - low) / 255)
    zero = np.rint(-low / step)
    return np.asarray((np.clip(np.rint(x / step) + zero, 0, 255) - zero) * float(step))


def stored(graph: ir.Model, name: str) -> npt.NDArray[np.float64]:
    """A weight [.., N] from 8 bits."""
    levels = weight(graph, f"{name}_uint8").astype(np.float64) - 128
    return np.asarray(levels * weight(graph, f"{name}_scale"))


@pytest.mark.parametrize("name", ["q8", "uint8"])
@pytest.mark.parametrize(
    "text",
    [
        "float[n, 32] x) => (float[n, 16] y) { y = MatMul(x, w) }",
        "float[b, n, 32] x) => (float[b, n, 16] y) { y = MatMul(x, w) }",
        "float[n, 32] x) => (float[n, 16] y) { y = Gemm(x, w, bias) }",
        "float[n, 32] x) => (float[n, 16] y) { y = Gemm<transB = 1>(x, v, bias) }",
    ],
)
def test_products(name: str, text: str) -> None:
    w, bias = noise(32, 16), noise(16)
    w *= np.logspace(-2, 1, 16, dtype=np.float32)  # a single scale would lose most columns
    weights = {"w": w, "v": np.ascontiguousarray(w.T), "bias": bias}
    subject = normal(f"g ({text}", {k: a for k, a in weights.items() if k in text.split("{")[1]})
    x = noise(8, 32) + 1
    feed = x.reshape(2, 4, 32) if "b, n" in text else x
    made = convert(subject, name, feed)
    key = "v" if "v" in weights and "(x, v" in text else "w"
    assert made.layers == (key,)
    matrix = stored(made.ir, key)
    np.testing.assert_allclose(weight(made.ir, f"{key}_scale"), np.abs(w).max(axis=0) / 127)
    expected = rounded(x) @ matrix + (bias if "Gemm" in text else 0)
    got = run(made.ir, {"x": feed})["y"].reshape(expected.shape)
    exact = x.astype(np.float64) @ w + (bias if "Gemm" in text else 0)
    for column in range(16):
        assert snr_of(expected[:, column], got[:, column]) > 45
        assert snr_of(exact[:, column], got[:, column]) > 30


@pytest.mark.parametrize(("groups", "clip"), [(1, ""), (16, ""), (1, "Relu"), (4, "Clip")])
def test_convolutions(groups: int, clip: str) -> None:
    w, b = noise(16, 16 // groups, 3, 3), noise(16)
    w *= np.logspace(-2, 0, 16, dtype=np.float32).reshape(-1, 1, 1, 1)
    behind = {"": "Identity(c)", "Relu": "Relu(c)", "Clip": "Clip(c, zero, six)"}[clip]
    limits = {"zero": np.zeros((), np.float32), "six": np.full((), 6, np.float32)}
    subject = normal(
        f"""g (float[1, 16, 9, 9] x) => (float[1, 16, 9, 9] y) {{
            c = Conv<group = {groups}, pads = [1, 1, 1, 1]>(x, w, b)
            y = {behind}
        }}""",
        {"w": w, "b": b, **(limits if clip == "Clip" else {})},
    )
    x = noise(1, 16, 9, 9) + 2
    made = convert(subject, "q8", x)
    assert made.layers == ("w",)
    exact = run(subject.ir, {"x": x})["y"]
    got = run(made.ir, {"x": x})["y"]
    step = (max(exact.max(), 0) - min(exact.min(), 0)) / 255
    # Inputs and weights are half a step off each, the result another half.
    assert np.abs(got - exact).max() < 8 * step
    assert snr_of(exact, got) > 33
    bias = weight(made.ir, "w_bias")
    assert bias.dtype == np.int32
    # It takes what rounding the weights shifts: (W - W') E[x], borders neglected.
    levels, scale = weight(made.ir, "w_uint8").astype(np.float64) - 128, weight(made.ir, "w_scale")
    lost = (
        (w - levels * scale.reshape(-1, 1, 1, 1)).sum(axis=(2, 3)).reshape(groups, -1, w.shape[1])
    )
    shift = np.einsum("goc,gc->go", lost, x.mean(axis=(0, 2, 3)).reshape(groups, -1)).reshape(-1)
    np.testing.assert_allclose(bias * weight(made.ir, "w_fine"), b + shift, atol=1e-3)


def test_only_weighed_layers_round_what_they_read() -> None:
    # The sum reads x as it is: a residual branch isn't disturbed.
    text = "g (float[n, 32] x) => (float[n, 32] y) { h = MatMul(x, w)  t = Tanh(h)  y = Add(t, x) }"
    x = noise(8, 32)
    x[0, 0] = 1000  # makes the step so large that all others would be lost
    subject = normal(text, {"w": noise(32, 32) * np.float32(0.01)})
    got = run(convert(subject, "q8", x).ir, {"x": x})["y"]
    assert np.abs(got - x)[1:].max() <= 1


def test_what_is_kept_wider_is_computed_in_fp32() -> None:
    text = "g (float[n, 32] x) => (float[n, 16] y) { h = MatMul(x, w)  y = MatMul(h, v) }"
    subject = normal(text, {"w": noise(32, 32), "v": noise(32, 16)})
    for name in OPT_IN:
        made = convert(subject, name, noise(64, 32), "w")
        assert made.layers == ("v",)
        assert operators(made.ir).count("MatMul") + (name == "uint8") == 2
        assert weight(made.ir, "w_uint8").dtype == np.uint8


def test_a_table_is_looked_up_in_8_bits() -> None:
    text = "g (int64[n] x) => (float[n, 16] y) { e = Gather(t, x)  y = MatMul(e, w) }"
    table = noise(100, 32)
    subject = normal(text, {"t": table, "w": noise(32, 16)})
    for name in OPT_IN:
        made = convert(subject, name, np.arange(100))  # type: ignore[arg-type]
        assert weight(made.ir, "t_uint8").shape == (100, 32)
        assert not [v for v in made.ir.graph.initializers.values() if v.name == "t"]


def test_a_bias_beyond_32_bits_makes_its_weights_coarser() -> None:
    w, b = noise(16, 32) * np.float32(1e-9), np.full(16, 100, np.float32)
    b[0] = 0
    text = "g (float[n, 32] x) => (float[n, 16] y) { y = Gemm<transB = 1>(x, w, b) }"
    subject = normal(text, {"w": w, "b": b})
    x = noise(8, 32)
    made = convert(subject, "q8", x)
    bias = weight(made.ir, "w_bias")
    assert np.abs(bias[1:]).min() > 2**29
    np.testing.assert_allclose(run(made.ir, {"x": x})["y"][:, 1:], 100, rtol=1e-6)


def test_layers_that_8_bits_cannot_hold_stay_wide() -> None:
    text = (
        "g (float[n, 32] x) => (float[n, 16] y) { l = Log(x)  h = MatMul(l, w)  y = MatMul(h, v) }"
    )
    subject = normal(text, {"w": noise(32, 16), "v": noise(16, 16)})
    x = np.abs(noise(4, 32))
    x[0, 0] = 0  # the logarithm is infinite
    with pytest.raises(ConversionError, match="no convolution or product"):
        convert(subject, "q8", x)


@pytest.mark.parametrize(("name", "opset", "said"), [("q8", 12, "13"), ("uint8", 10, "11")])
def test_old_opsets_are_refused(name: str, opset: int, said: str) -> None:
    text = "g (float[3, 16] x) => (float[3, 8] y) { y = MatMul(x, w) }"
    subject = model(text, {"w": noise(16, 8)}, opset=opset)
    with pytest.raises(ConversionError, match=f"opset {said} "):
        convert(subject, name, noise(3, 16))


def test_the_gate_keeps_the_worst_layer_wider() -> None:
    # A channel of outliers between the second and the third product sets the step of all of it.
    weights = {f"w{i}": np.eye(256, dtype=np.float32) + noise(256, 256) / 50 for i in range(4)}
    weights["w1"][:, 7] *= 3000
    weights["w2"][7] /= 3000
    text = "a = MatMul(x, w0)  b = MatMul(a, w1)  c = MatMul(b, w2)  y = MatMul(c, w3)"
    subject = normal(f"g (float[n, 256] x) => (float[n, 256] y) {{ {text} }}", weights)
    runs = references(subject, *({"x": noise(32, 256)} for _ in range(4)))
    for name in OPT_IN:
        outcome = make(Subject(subject, runs), FORM[name], Demand("snr"))
        assert outcome is not None
        assert outcome.ir is not None, outcome.reason
        assert not outcome.steps[0].verdict.passed
        assert outcome.verdict is not None
        assert outcome.verdict.snr >= 15
        assert operators(outcome.ir).count("MatMul") == (1 if name == "uint8" else 4)
        assert any("tried" in event.message for event in outcome.events)
        assert outcome.form.devices == ("wasm",)


def test_the_same_input_gives_the_same_bytes() -> None:
    subject = normal(
        "g (float[n, 32] x) => (float[n, 16] y) { y = MatMul(x, w) }", {"w": noise(32, 16)}
    )
    x = noise(64, 32)
    for name in OPT_IN:
        made = [ir.to_proto(convert(subject, name, x).ir).SerializeToString() for _ in range(2)]
        assert made[0] == made[1]
