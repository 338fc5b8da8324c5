"""How near a variant is to its references: the metrics, and what each dtype must reach.

Default tolerances, and why:

| dtype | `snr` | `top1` (and its SNR floor) | reasoning |
|---|--:|--:|---|
| fp32 | 80 dB | 0.995 (80 dB) | another order of summation costs 110 to 130 dB on real models; below 80 dB something else was changed |
| fp16 | 35 dB | 0.95 (35 dB) | rounding weights to half costs 40 to 50 dB on convolutional nets; 35 dB is 2 % of error. At 45 dB 1 % of EfficientNet-Lite0's random crops, where two classes tie, change their answer: one in a few tens of references must not decide, so the SNR does |
| int8, q8, uint8 | 15 dB | 0.95 (10 dB) | 8 bits for each output channel give about 40 dB for each layer and 15 to 35 dB on logits of real models, where the ranking still holds |
| q4, q4f16 | 10 dB | 0.9 (7 dB) | 4 bits in blocks of 32 give about 22 dB for each layer |

The others follow the same scale: a `cosine` of 0.999 is what keeps nearest neighbours of sentence
embeddings in int8, and 0.9992 on the references leaves that to sentences that aren't among them;
`boxes` 0.9 is beyond the 0.5 to 0.75 at which boxes count as found; `wer` 0.99 is a word error rate
within 1 point of fp32's, for every dtype: what a listener would notice doesn't depend on it.
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from builder.model import Array
from builder.precision.words import wer
from builder.recipe import OPT_IN, VariantName
from builder.snr import SNR_CAP, snr_of

WRITTEN = 16
"""Symbols at the end of a text that a language model must choose as the reference did."""

Outputs: TypeAlias = Mapping[str, Array]
"""The outputs of one run, by name, in the order of the signature."""


@dataclass(frozen=True)
class Metric:
    """One way of comparing runs of a variant with runs of the fp32 model.

    Attributes:
        name: The key in `METRICS`.
        label: What is measured, in words for a visitor.
        unit: "dB", "cosine", or "" for a fraction of 1, which is shown in per cent.
        tolerance: What a variant must reach unless the recipe says otherwise, by dtype.
        snr_floor: The SNR in dB of the worst output that it must reach besides, by dtype.
        measure: From the outputs of the reference runs and of the variant's, to a value.
        of_results: Whether it measures what the stage behind the model makes of its outputs.
    """

    name: str
    label: str
    unit: Literal["dB", "cosine", ""]
    tolerance: Mapping[VariantName, float]
    snr_floor: Mapping[VariantName, float]
    measure: Callable[[Sequence[Outputs], Sequence[Outputs]], float]
    of_results: bool = False

    def show(self, value: float) -> str:
        """The value as a visitor reads it: `41.3 dB`, `0.9995` or `96.5 %`."""
        shown = {"dB": f"{value:.1f} dB", "cosine": f"{value:.4f}"}
        return shown.get(self.unit, f"{100 * value:.1f} %")


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


def cosine(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Least cosine between the embeddings of a run, -1 to 1; see `_embeddings`."""
    expected, got = _embeddings(references), _embeddings(variants)
    if expected is None or got is None or expected.shape != got.shape:
        return -1.0
    least = float(np.min(np.sum(expected * got, axis=1), initial=1.0))
    return least if np.isfinite(least) else -1.0


def neighbours(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Share of embeddings whose nearest other one, by cosine, is the same, 0 to 1."""
    nearest = []
    for runs in (references, variants):
        table = _embeddings(runs)
        if table is None:
            return 0.0
        near = table @ table.T
        np.fill_diagonal(near, -np.inf)
        nearest.append(near.argmax(axis=1))
    return float(np.mean(nearest[0] == nearest[1])) if len(nearest[0]) > 1 else 1.0


def _embeddings(runs: Sequence[Outputs]) -> npt.NDArray[np.float64] | None:
    """One row a run, of length 1: its first output of floats, averaged over all axes but the last
    (tokens, that is, as sentence encoders do).
    """
    rows = []
    for run in runs:
        first = next((array for array in run.values() if array.dtype.kind == "f"), None)
        if first is None or first.ndim == 0:
            return None
        rows.append(first.reshape(-1, first.shape[-1]).mean(axis=0, dtype=np.float64))
    if len({row.size for row in rows}) > 1:
        return None
    table = np.stack(rows)
    return np.asarray(table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30))


def boxes(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Mean overlap (intersection over union) of the boxes of results, 0 to 1.

    Each box of the reference is held against the nearest box of the variant; a box that only one
    of them has counts as 0.

    Results have `boxes`, float [n, 4]: left, top, right, bottom.
    """
    overlaps: list[float] = []
    for reference, variant in zip(references, variants, strict=True):
        expected, got = reference["boxes"].astype(np.float64), variant["boxes"].astype(np.float64)
        best = _overlap(expected, got).max(axis=1, initial=0.0)
        missing = max(len(got) - len(expected), 0)
        overlaps += [*best.tolist(), *[0.0] * missing]
    return float(np.mean(overlaps)) if overlaps else 1.0


def text(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Share of texts that come out the same, 0 to 1.

    A text is the first output of floats [..., steps, symbols]: the most likely symbol of each step,
    repetitions dropped (Graves et al., "Connectionist Temporal Classification", 2006).
    """
    same = total = 0
    for reference, variant in zip(references, variants, strict=True):
        for expected, got in _rows(reference, variant):
            pairs = zip(_texts(expected), _texts(got), strict=True)
            found = [np.array_equal(a, b) for a, b in pairs]
            same, total = same + sum(found), total + len(found)
    return same / total if total else 0.0


def tokens(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """1 less the error rate of symbols: edit distance over the length of the reference's text."""
    wrong = total = 0
    for reference, variant in zip(references, variants, strict=True):
        for expected, got in _rows(reference, variant):
            for a, b in zip(_texts(expected), _texts(got), strict=True):
                wrong += Levenshtein.distance(a.tolist(), b.tolist())
                total += len(a)
    return max(0.0, 1 - wrong / total) if total else 0.0


def greedy(references: Sequence[Outputs], variants: Sequence[Outputs]) -> float:
    """Share of texts that a language model goes on to write as the reference does, 0 to 1.

    The first output of floats is [..., steps, symbols], scores of the symbol after each step; the
    inputs end in the `WRITTEN` symbols that the reference wrote. Up to its first other choice a
    variant sees what it would have written itself, so one run tells what that many would.
    """
    same = total = 0
    for reference, variant in zip(references, variants, strict=True):
        for expected, got in _rows(reference, variant):
            ends = [x[..., -WRITTEN:, :].argmax(axis=-1) for x in (expected, got)]
            agree = np.equal(*ends).reshape(-1, ends[0].shape[-1]).all(axis=-1)
            same, total = same + int(agree.sum()), total + agree.size
    return same / total if total else 0.0


def _rows(
    reference: Outputs, variant: Outputs
) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """The first output of floats that has an axis, of both, if their shapes agree."""
    for name, array in reference.items():
        if array.dtype.kind == "f" and array.ndim > 0:
            got = variant[name]
            if got.shape == array.shape and array.size:
                yield array.astype(np.float64), got.astype(np.float64)
            return


def _texts(scores: npt.NDArray[np.float64]) -> list[npt.NDArray[np.int64]]:
    steps = scores.reshape(-1, *scores.shape[-2:]).argmax(axis=-1)
    return [row[np.append(True, row[1:] != row[:-1])] for row in steps]


def _overlap(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Intersection over union of every pair, [n, m]."""
    corners = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inside = np.prod(np.clip(corners[1] - corners[0], 0, None), axis=-1)
    areas = [np.prod(np.clip(x[:, 2:] - x[:, :2], 0, None), axis=-1) for x in (a, b)]
    union = areas[0][:, None] + areas[1][None, :] - inside
    return np.asarray(inside / np.maximum(union, 1e-30))


def _by_dtype(fp32: float, fp16: float, int8: float, q4: float) -> dict[VariantName, float]:
    eighths = dict.fromkeys(("int8", *OPT_IN), int8)
    return {"fp32": fp32, "fp16": fp16, "q4": q4, "q4f16": q4, **eighths}


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "snr",
            "signal-to-noise ratio against fp32",
            "dB",
            tolerance=_by_dtype(80, 35, 15, 10),
            snr_floor=_by_dtype(80, -SNR_CAP, -SNR_CAP, -SNR_CAP),
            measure=snr,
        ),
        Metric(
            "top1",
            "top-1 agreement with fp32",
            "",
            tolerance=_by_dtype(0.995, 0.95, 0.95, 0.9),
            snr_floor=_by_dtype(80, 35, 10, 7),
            measure=top1,
        ),
        Metric(
            "cosine",
            "least cosine to fp32",
            "cosine",
            tolerance=_by_dtype(0.999999, 0.9999, 0.9992, 0.97),
            snr_floor=_by_dtype(80, 35, 15, 7),
            measure=cosine,
        ),
        Metric(
            "neighbours",
            "same nearest neighbour as fp32",
            "",
            tolerance=_by_dtype(1, 0.97, 0.9, 0.75),
            snr_floor=_by_dtype(80, 35, 15, 7),
            measure=neighbours,
        ),
        Metric(
            "boxes",
            "overlap of boxes with fp32's",
            "",
            tolerance=_by_dtype(0.999, 0.98, 0.9, 0.8),
            snr_floor=_by_dtype(80, 35, 15, 10),
            measure=boxes,
            of_results=True,
        ),
        Metric(
            "text",
            "same text as fp32",
            "",
            tolerance=_by_dtype(1, 1, 1, 0.95),
            snr_floor=_by_dtype(80, 35, 25, 15),
            measure=text,
        ),
        Metric(
            "tokens",
            "symbols as fp32 has them",
            "",
            tolerance=_by_dtype(1, 0.999, 0.99, 0.97),
            snr_floor=_by_dtype(80, 35, 25, 15),
            measure=tokens,
        ),
        Metric(
            "greedy",
            f"texts whose next {WRITTEN} symbols are those of fp32",
            "",
            tolerance=_by_dtype(1, 1, 1, 1),
            snr_floor=_by_dtype(80, 35, 15, 7),
            measure=greedy,
        ),
        Metric(
            "wer",
            "words as fp32 writes them",
            "",
            tolerance=_by_dtype(1, 0.99, 0.99, 0.99),
            snr_floor=_by_dtype(80, 35, 15, 7),
            measure=wer,
            of_results=True,
        ),
    )
}
"""By name. A task names its metric, a recipe may name another; `snr` fits any."""
