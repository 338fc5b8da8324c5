"""Make a variant, prove that it is valid and right, or say why it isn't shipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import onnx_ir as ir

from builder.errors import ConversionError, UnsupportedError
from builder.model import Event, Model, Reference, Verdict
from builder.passes.check import validate
from builder.precision import fp16, int8, ranges
from builder.precision.metrics import METRICS, Metric, Outputs, max_abs_error, snr
from builder.recipe import VariantName
from builder.session import Session

Compute: TypeAlias = Literal["float32", "float16"]

WORTH = 0.9
"""A variant with fewer bits must be smaller than this share of the fp32 graph, or it saves nothing
that a visitor would notice."""


@dataclass(frozen=True)
class Outcome:
    """What became of one variant.

    Attributes:
        dtype: The variant.
        compute: Element type of its arithmetic.
        ir: The graph, or None if the variant is dropped.
        verdict: What the gate measured; None if it never came to that.
        reason: One sentence for people: why it ships or why not.
        events: What the conversion changed or left, and why.
    """

    dtype: VariantName
    compute: Compute
    ir: ir.Model | None
    verdict: Verdict | None
    reason: str
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class _Conversion:
    compute: Compute
    convert: Callable[[Model, Sequence[Reference]], tuple[ir.Model, tuple[Event, ...]]]


def _as_is(model: Model, _: Sequence[Reference]) -> tuple[ir.Model, tuple[Event, ...]]:
    return model.ir, ()


def _to_fp16(model: Model, references: Sequence[Reference]) -> tuple[ir.Model, tuple[Event, ...]]:
    halved = fp16.convert(model.ir, ranges.measure(model.ir, references))
    return halved.ir, halved.events


def _to_int8(model: Model, references: Sequence[Reference]) -> tuple[ir.Model, tuple[Event, ...]]:
    quantized = int8.convert(model.ir, references)
    return quantized.ir, quantized.events


CONVERSIONS: dict[VariantName, _Conversion] = {
    "fp32": _Conversion("float32", _as_is),
    "fp16": _Conversion("float16", _to_fp16),
    "int8": _Conversion("float32", _to_int8),
}
"""How each variant is made."""


def make(
    model: Model,
    dtype: VariantName,
    references: Sequence[Reference],
    *,
    metric: str,
    tolerance: float | None = None,
) -> Outcome:
    """Convert, check and judge one variant. Never ships an invalid or wrong graph, never fails.

    Args:
        model: In normal form.
        dtype: The variant to make.
        references: Inputs with the outputs of the fp32 model on the CPU; at least one.
        metric: A key of `METRICS`.
        tolerance: What the metric must reach; None for the metric's default for `dtype`.

    Returns:
        The variant, or the reason why there is none.
    """
    conversion = CONVERSIONS[dtype]
    events: tuple[Event, ...] = ()

    def dropped(reason: str, verdict: Verdict | None = None) -> Outcome:
        return Outcome(dtype, conversion.compute, None, verdict, reason, events)

    try:
        graph, events = conversion.convert(model, references)
        validate(graph, model.signature)
        share = size(graph) / size(model.ir)
        if dtype != "fp32" and share > WORTH:
            return dropped(f"It saves nothing: {100 * share:.0f} % of the size of fp32")
        session = Session(graph)
        results = [session.run(reference.inputs) for reference in references]
    except (ConversionError, UnsupportedError) as error:
        return dropped(f"It can't be converted: {error.why}")
    verdict = judge(dtype, [ref.outputs for ref in references], results, METRICS[metric], tolerance)
    if not verdict.passed:
        return dropped(verdict.reason, verdict)
    return Outcome(dtype, conversion.compute, graph, verdict, verdict.reason, events)


def judge(
    dtype: VariantName,
    expected: Sequence[Outputs],
    results: Sequence[Outputs],
    metric: Metric,
    tolerance: float | None = None,
) -> Verdict:
    """Compare runs of a variant with the references.

    Args:
        dtype: Whose default tolerance and SNR floor apply.
        expected: Outputs of the references.
        results: Outputs of the variant on the same inputs.
        metric: What is asked for.
        tolerance: What it must reach; None for the default.
    """
    asked = metric.tolerance[dtype] if tolerance is None else tolerance
    value, ratio = metric.measure(expected, results), snr(expected, results)
    floor = metric.snr_floor[dtype] if metric.name != "snr" else -float("inf")
    passed = value >= asked and ratio >= floor
    reason = f"{metric.label} {metric.show(value)}, asked for {metric.show(asked)}"
    if value >= asked and ratio < floor:
        reason += f", but outputs agree to {ratio:.1f} dB only, asked for {floor:.0f} dB"
    return Verdict(
        metric=metric.name,
        value=value,
        tolerance=asked,
        passed=passed,
        reason=reason[0].upper() + reason[1:],
        max_abs_error=max_abs_error(expected, results),
        snr=ratio,
    )


def size(model: ir.Model) -> int:
    """Bytes of graph and weights together."""
    return int(ir.to_proto(model).ByteSize())


FP32_MINIMUM = 50.0
"""dB. GPUs sum in another order and have exp() and the like to a few ulp: 90 to 120 dB are seen on
healthy ones, below 50 dB (0.3 %) something is broken, not rounded."""

FP16_CEILING, FP16_ALLOWANCE, FP16_FLOOR = 60.0, 15.0, 20.0
"""dB. The CPU runs half graphs in fp32 between roundings, so its figure flatters: real half
arithmetic adds the rounding of sums and is allowed 15 dB less. Figures over 60 dB say no more than
that the CPU hardly rounded. Below 20 dB (10 %) no answer can be trusted."""

INT8_ALLOWANCE, INT8_FLOOR = 3.0, 10.0
"""dB. Compute is fp32, so the browser has the CPU's own error, up to chance: 3 dB, a factor 1.4.
But onnxruntime may turn an int8 product into `MatMulNBits`, which rounds activations as well, on
one backend and not on another: so the gate's worst reference counts where the probe does better."""


def selftest_minimum(dtype: VariantName, verdict: Verdict, probe_snr: float) -> float:
    """The SNR in dB that a browser must reach on the probe before its answers are shown.

    Args:
        dtype: The variant.
        verdict: Of the gate. A variant that a recipe let through below the floors given here isn't
            asked for more than it has.
        probe_snr: What the CPU reaches on the probe.

    Returns:
        fp32: 50. fp16: the probe's, at most 60, less 15, but at least 20. int8: the probe's or the
        gate's, whichever is worse, at most what fp32 must reach, less 3, but at least 10.
    """
    if dtype == "fp32":
        return FP32_MINIMUM
    if dtype == "fp16":
        return max(min(probe_snr, FP16_CEILING) - FP16_ALLOWANCE, min(FP16_FLOOR, verdict.snr))
    known = min(probe_snr, verdict.snr, FP32_MINIMUM)
    return max(known - INT8_ALLOWANCE, min(INT8_FLOOR, verdict.snr))
