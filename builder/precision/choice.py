"""Which of the variants that passed are worth shipping: nothing dominated in size and error."""

from __future__ import annotations

from collections.abc import Sequence

from builder.precision.forms import CPU
from builder.precision.gate import Outcome
from builder.recipe import OPT_IN, VariantName

STORAGE: dict[VariantName, VariantName] = {"q4f16": "q4"}
"""Names for the same bytes, computed in another type: they ship together."""

SMALLER = 0.85
"""A variant with a larger error must be below this share of another's size to be worth shipping."""


BETTER = 1.0
"""dB by which another must be better: less is chance, with a few dozen references."""


def dominated(outcomes: Sequence[Outcome]) -> dict[VariantName, str]:
    """Variants that another one beats, each with the reason in a sentence.

    A variant is as large and as wrong as its base form: what other forms lose beside it they lose
    for speed. One that has a form of its own for WASM, which computes in 8 bits, is faster there
    and so isn't beaten by one that has none. fp32 is never dominated: it has no error.

    Args:
        outcomes: Of all forms, in the order of `builder.precision.forms.FORMS`.
    """
    sizes: dict[VariantName, int] = {}
    errors: dict[VariantName, float] = {}
    fast: set[VariantName] = set()
    for outcome in outcomes:
        if outcome.ir is None or outcome.verdict is None:
            continue
        dtype = STORAGE.get(outcome.form.dtype, outcome.form.dtype)
        # Pruned weights are lighter on the wire only; then that is weighed for all of them.
        sizes.setdefault(dtype, outcome.size if outcome.wire is None else outcome.wire)
        errors.setdefault(dtype, -outcome.verdict.snr)
        if outcome.form.devices == CPU and dtype not in OPT_IN:
            fast.add(dtype)
    where = " on the wire" if any(outcome.wire is not None for outcome in outcomes) else ""
    found: dict[VariantName, str] = {}
    for dtype in sizes:
        for other in sizes:
            if other in (dtype, *found) or dtype == "fp32" or (dtype in fast and other not in fast):
                continue
            if sizes[other] * SMALLER <= sizes[dtype] and errors[other] < errors[dtype] - BETTER:
                found[dtype] = (
                    f"{other} is better: {sizes[other] / 1e6:.1f} MB{where} at "
                    f"{-errors[other]:.1f} dB, "
                    f"{dtype} {sizes[dtype] / 1e6:.1f} MB at {-errors[dtype]:.1f} dB"
                )
                break
    for dtype, storage in STORAGE.items():
        if storage in found:
            found[dtype] = found[storage]
    return found
