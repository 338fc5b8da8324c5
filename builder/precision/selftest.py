"""What a browser must reach on a stored reference before its answers are shown."""

from __future__ import annotations

import math

from builder.model import Verdict
from builder.precision.forms import Compute
from builder.recipe import VariantName

FP32_MINIMUM = 50.0
"""dB. GPUs sum in another order and have exp() and the like to a few ulp: 90 to 120 dB are seen on
healthy ones, below 50 dB (0.3 %) something is broken, not rounded."""

HALF_CEILING, HALF_ALLOWANCE, HALF_FLOOR = 60.0, 15.0, 20.0
"""dB. The CPU runs half graphs in fp32 between roundings, so its figure flatters: real half
arithmetic adds the rounding of sums and is allowed 15 dB less. Figures over 60 dB say no more than
that the CPU hardly rounded. Below 20 dB (10 %) no answer can be trusted."""

HALF_NOISE = 30.0
"""dB. What half arithmetic may add to the error of rounded weights: 41 dB are seen after fifty
layers."""

STORED_ALLOWANCE, STORED_FLOOR = 3.0, 10.0
"""dB. Compute is fp32, so the browser has the CPU's own error, up to chance: 3 dB, a factor 1.4.
But onnxruntime may turn a product of fewer bits into another kernel, which rounds activations as
well, on one backend and not on another: so the gate's worst reference counts where the probe does
better."""


def minimum(dtype: VariantName, compute: Compute, verdict: Verdict, probe_snr: float) -> float:
    """The SNR in dB that a browser must reach on the probe before its answers are shown.

    Args:
        dtype: What is stored.
        compute: What is computed in.
        verdict: Of the gate. A variant that a recipe let through below the floors given here isn't
            asked for more than it has.
        probe_snr: What the CPU reaches on the probe.

    Returns:
        fp32: 50, where its weights were pruned or clustered as for fewer bits. fp16 computing in
        half: the probe's, at most 60, less 15, but at least 20. Fewer bits: the probe's or the
        gate's, whichever is worse, at most what fp32 must reach, less 3, but at least 10; in half,
        less what half adds.
    """
    if dtype == "fp32" and min(probe_snr, verdict.snr) >= FP32_MINIMUM:
        return FP32_MINIMUM
    if dtype == "fp16" and compute == "float16":
        return max(min(probe_snr, HALF_CEILING) - HALF_ALLOWANCE, min(HALF_FLOOR, verdict.snr))
    known = min(probe_snr, verdict.snr, FP32_MINIMUM) - STORED_ALLOWANCE
    if compute == "float16":
        known = -10 * math.log10(10 ** (-known / 10) + 10 ** (-HALF_NOISE / 10))
    return max(known, min(STORED_FLOOR, verdict.snr))
