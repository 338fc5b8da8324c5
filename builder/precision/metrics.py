"""How near a variant is to its references: the metrics, and what each dtype must reach.

Default tolerances, and why:

| dtype | `snr` | `top1` (and its SNR floor) | reasoning |
|---|--:|--:|---|
| fp32 | 80 dB | 0.995 (80 dB) | another order of summation costs 110 to 130 dB on real models; below 80 dB something else was changed |
| fp16 | 35 dB | 0.95 (35 dB) | rounding weights to half costs 40 to 50 dB on convolutional nets; 35 dB is 2 % of error. At 45 dB 1 % of EfficientNet-Lite0's random crops, where two classes tie, change their answer: one in a few tens of references must not decide, so the SNR does |
| int8 | 15 dB | 0.95 (10 dB) | 8 bits for each output channel give about 40 dB for each layer and 15 to 35 dB on logits of real models, where the ranking still holds |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from builder.model import Array
from builder.recipe import VariantName
from builder.snr import SNR_CAP, snr_of

Outputs: TypeAlias = Mapping[str, Array]
"""The outputs of one run, by name, in the order of the signature."""


@dataclass(frozen=True)
class Metric:
    """One way of comparing runs of a variant with runs of the fp32 model.

    Attributes:
        name: The key in `METRICS`.
        label: What is measured, in words for a visitor.
        unit: "dB", or "" for a fraction of 1, which is shown in per cent.
        tolerance: What a variant must reach unless the recipe says otherwise, by dtype.
        snr_floor: The SNR in dB of the worst output that it must reach besides, by dtype.
        measure: From the outputs of the reference runs and of the variant's, to a value.
        better: Always "higher": tolerances are lower limits.
    """

    name: str
    label: str
    unit: Literal["dB", ""]
    tolerance: Mapping[VariantName, float]
    snr_floor: Mapping[VariantName, float]
    measure: Callable[[Sequence[Outputs], Sequence[Outputs]], float]
    better: Literal["higher"] = "higher"

    def show(self, value: float) -> str:
        """The value as a visitor reads it: `41.3 dB` or `96.5 %`."""
        return f"{value:.1f} dB" if self.unit == "dB" else f"{100 * value:.1f} %"


def snr(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """SNR in dB of the worst output of the worst run; see `snr_of`."""
    return min(
        (
            snr_of(array, variant[name]) if name in variant else -SNR_CAP
            for reference, variant in zip(references, variants, strict=True)
            for name, array in reference.items()
        ),
        default=SNR_CAP,
    )


def top1(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Share of rows whose largest element stands at the same place, 0 to 1.

    Rows run along the last axis of the first output of floats that has an axis at all; where there
    is none, nothing agrees.
    """
    agree = total = 0
    for reference, variant in zip(references, variants, strict=True):
        for name, array in reference.items():
            if array.dtype.kind == "f" and array.ndim > 0:
                got = variant[name]
                total += array.size // max(array.shape[-1], 1)
                if got.shape == array.shape and array.size and np.isfinite(got).all():
                    agree += int(np.sum(array.argmax(-1) == got.argmax(-1)))
                break
    return agree / total if total else 0.0


def max_abs_error(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Largest absolute difference over all numeric outputs; non-finite pairs don't count."""
    worst = 0.0
    for reference, variant in zip(references, variants, strict=True):
        for name, array in reference.items():
            got = variant.get(name)
            if got is None or got.shape != array.shape or array.dtype.kind not in "fiub":
                continue
            ref, other = array.astype(np.float64), got.astype(np.float64)
            finite = np.isfinite(ref) & np.isfinite(other)
            worst = max(worst, float(np.max(np.abs(ref[finite] - other[finite]), initial=0.0)))
    return worst


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "snr",
            "signal-to-noise ratio against fp32",
            "dB",
            tolerance={"fp32": 80.0, "fp16": 35.0, "int8": 15.0},
            snr_floor={"fp32": 80.0, "fp16": -SNR_CAP, "int8": -SNR_CAP},
            measure=snr,
        ),
        Metric(
            "top1",
            "top-1 agreement with fp32",
            "",
            tolerance={"fp32": 0.995, "fp16": 0.95, "int8": 0.95},
            snr_floor={"fp32": 80.0, "fp16": 35.0, "int8": 10.0},
            measure=top1,
        ),
    )
}
"""By name. A task names its metric; `snr` fits any."""
