"""1x1 convolutions in 8 bits: near the exact ones, channel by channel and image by image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from builder.model import Model
from builder.passes.check import validate
from builder.precision import FORMS, Subject, int8
from builder.precision.int8 import Quantized
from builder.snr import snr_of
from tests.precision.small import normal, operators, references, run, weight

WASM = next(form for form in FORMS if form.name == "int8-wasm")


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of these tests are small; the limits are what is configurable, not what is tested."""
    monkeypatch.setattr(int8, "INT8_ELEMENTS", 64)
    monkeypatch.setattr(int8, "FP16_ELEMENTS", 8)


def network(
    behind: str, *, bias: bool = True, size: tuple[object, object] = (14, 14), more: str = ""
) -> tuple[Model, dict[str, npt.NDArray[np.float32]]]:
    """Channels in that differ in range and lie to one side of 0, as after an activation."""
    rng = np.random.default_rng(8)
    w = (rng.standard_normal((24, 32, 1, 1)) * np.logspace(-1, 0, 24).reshape(-1, 1, 1, 1)).astype(
        np.float32
    )
    weights = {"w": w, "b": rng.standard_normal(24).astype(np.float32)}
    weights |= {"low": np.array(-0.5, np.float32), "high": np.array(0.75, np.float32)}
    given = "x, w, b" if bias else "x, w"
    text = f"""g (float[n, 32, {size[0]}, {size[1]}] x) => (float[n, 24, h, v] y) {{
        c = Conv<kernel_shape = [1, 1]{more}>({given})
        {behind}
    }}"""
    used = {k: v for k, v in weights.items() if k == "w" or k in behind or (k == "b" and bias)}
    return normal(text, used), weights


def images(count: int, seed: int, sides: tuple[int, int] = (14, 14)) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 32, *sides)) + np.linspace(-2, 2, 32).reshape(1, -1, 1, 1)
    return (x * np.logspace(-1.5, 0.5, 32).reshape(1, -1, 1, 1)).astype(np.float32)


def multiplied(subject: Subject) -> Quantized:
    names = frozenset(subject.eighths.multiplied)
    return int8.convert(subject.ir, subject.activations, subject.eighths, multiplied=names)


def measured(model: Model) -> Subject:
    return Subject(model, references(model, *({"x": images(2, seed)} for seed in range(8))))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("behind", "rule", "nodes"),
    [
        ("y = Identity(c)", lambda c: c, set()),
        ("y = Relu(c)", lambda c: np.maximum(c, 0), {"Relu"}),
        ("y = Clip(c, low, high)", lambda c: np.clip(c, -0.5, 0.75), {"Clip"}),
        ("r = Relu(c) y = Add(r, c)", lambda c: np.maximum(c, 0) + c, set()),
    ],
)
def test_is_near_the_convolution(bias: bool, behind: str, rule: object, nodes: set[str]) -> None:
    model, weights = network(behind, bias=bias)
    made = multiplied(measured(model))
    validate(made.ir, model.signature)
    assert made.multiplied
    assert "MatMulIntegerToFloat" in operators(made.ir)
    assert "Conv" not in operators(made.ir)
    assert not nodes.intersection(operators(made.ir))
    x = images(3, 99)  # another batch than any that was seen
    w = np.asarray(weights["w"], np.float64)[:, :, 0, 0]
    exact = np.einsum("oc,nchw->nohw", w, x)
    exact += np.reshape(weights["b"], (1, -1, 1, 1)) if bias else 0
    noise = run(made.ir, {"x": x})["y"] - rule(exact)  # type: ignore[operator]
    # Channels that are 10 times smaller than others are as good as those.
    for channel in range(24):
        assert snr_of(exact[:, channel], exact[:, channel] + noise[:, channel]) > 33


def test_images_of_a_batch_do_not_see_each_other() -> None:
    made = multiplied(measured(network("y = Relu(c)")[0]))
    x = images(2, 99)
    alone = run(made.ir, {"x": x[:1]})["y"]
    x[1] *= 1000
    np.testing.assert_array_equal(run(made.ir, {"x": x})["y"][:1], alone)


@pytest.mark.parametrize("bounds", [(1.0, 6.0), (-6.0, -1.0), (0.0, 6.0)])
def test_an_image_on_one_side_of_0(bounds: tuple[float, float]) -> None:
    rng = np.random.default_rng(8)
    w = rng.standard_normal((24, 32, 1, 1)).astype(np.float32)
    model = normal(
        """g (float[n, 32, 14, 14] x) => (float[n, 24, 14, 14] y) {
            r = Clip(x, low, high)
            y = Conv(r, w)
        }""",
        {"w": w, "low": np.array(bounds[0], np.float32), "high": np.array(bounds[1], np.float32)},
    )
    made = multiplied(measured(model))
    # Channels that calibration hardly saw above the lower bound are far above it here.
    x = images(2, 99)[:, ::-1] * 3
    exact = np.einsum("oc,nchw->nohw", w[:, :, 0, 0].astype(np.float64), np.clip(x, *bounds))
    assert snr_of(exact, run(made.ir, {"x": np.ascontiguousarray(x)})["y"]) > 30


def test_both_forms_read_the_same_bytes_and_agree() -> None:
    subject = measured(network("y = Identity(c)")[0])
    plain = int8.convert(subject.ir, subject.activations, subject.eighths)
    made = multiplied(subject)
    assert plain.layers == made.layers == ("w",)
    assert "Conv" in operators(plain.ir)
    for name in ("w_uint8", "w_scale", "w_smooth"):
        np.testing.assert_array_equal(weight(plain.ir, name), weight(made.ir, name))
    x = images(2, 99)
    exact, fp32, eight = (run(g, {"x": x})["y"] for g in (subject.ir, plain.ir, made.ir))
    assert snr_of(exact, fp32) > 40
    assert snr_of(fp32, eight) > 35


def test_weights_are_given_back_on_average() -> None:
    subject = measured(network("y = Identity(c)")[0])
    plain = int8.convert(subject.ir, subject.activations, subject.eighths).ir
    seen = np.concatenate([np.asarray(r.inputs["x"]) for r in subject.references])
    exact, got = (run(g, {"x": seen})["y"].mean(axis=(0, 2, 3)) for g in (subject.ir, plain))
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "more"),
    [
        (("h", "w"), ""),
        ((28, 28), ""),
        ((5, 5), ""),
        ((14, 14), ", strides = [2, 2]"),
        ((14, 14), ", pads = [1, 1, 1, 1]"),
    ],
)
def test_what_does_not_pay_is_computed_in_fp32(size: tuple[object, object], more: str) -> None:
    model, _ = network("y = Identity(c)", size=size, more=more)
    sides = tuple(side if isinstance(side, int) else 14 for side in size)
    feeds = [{"x": images(2, seed, sides)} for seed in range(3)]  # type: ignore[arg-type]
    subject = Subject(model, references(model, *feeds))
    assert not subject.eighths.multiplied
    assert WASM.convert(subject, frozenset()) is None
    got = run(int8.convert(subject.ir, subject.activations, subject.eighths).ir, feeds[0])
    assert snr_of(subject.references[0].outputs["y"], got["y"]) > 30


def test_what_is_kept_wider_reads_the_same_bytes_in_fp32() -> None:
    subject = measured(network("y = Relu(c)")[0])
    made = WASM.convert(subject, frozenset("w"))
    assert made is not None
    assert made.layers == ()
    assert "MatMulIntegerToFloat" not in operators(made.ir)
    whole = WASM.convert(subject, frozenset())
    assert whole is not None
    assert whole.layers == ("w",)
    np.testing.assert_array_equal(weight(made.ir, "w_uint8"), weight(whole.ir, "w_uint8"))


def test_old_opsets_are_computed_in_fp32() -> None:
    rng = np.random.default_rng(8)
    model = normal(
        "g (float[n, 32, 14, 14] x) => (float[n, 24, 14, 14] y) { y = Conv(x, w) }",
        {"w": rng.standard_normal((24, 32, 1, 1)).astype(np.float32)},
        opset=11,
    )
    subject = measured(model)
    if subject.ir.opset_imports[""] < 13:
        assert not subject.eighths.multiplied
    made = multiplied(subject)
    x = images(2, 99)
    assert snr_of(run(subject.ir, {"x": x})["y"], run(made.ir, {"x": x})["y"]) > 30
