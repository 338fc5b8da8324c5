"""Ranges of activations for static quantization, from calibration runs on the fp32 graph.

Three methods, named as onnxruntime names them. `minmax` takes everything that was seen.
`percentile` leaves `PERCENTILE` of it, the rest cut evenly on both sides. `entropy` cuts where the
divergence of the rounded distribution from the real one is least (Migacz, "8-bit Inference with
TensorRT", GTC 2017).

onnxruntime's own calibrators aren't used: they write files, keep every activation of every run in
memory, and their entropy compares nothing as it is set up: 128 bins in 128 levels leave a single
threshold to choose from, the whole range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.model import Array, Reference
from builder.precision.activations import CALIBRATION
from builder.precision.ranges import Range, batches, exposing, spread
from builder.recipe import CalibrationMethod
from builder.session import Session

BINS = 2049
"""Of a histogram over [-peak, peak]; odd, so that 0 is in the middle of one."""

ENTROPY_LEVELS = 128
"""Into which the bins within a threshold are merged: as in the talk, and in onnxruntime."""

PERCENTILE = 99.999
"""As in onnxruntime."""

SMOOTH = 1e-4
"""What an empty bin counts as: a divergence from 0 has no value."""

Float = npt.NDArray[np.float64]


@dataclass
class Histogram:
    """Elements of one activation, counted.

    Attributes:
        range: Lowest and highest.
        counts: int64 [BINS] over [-range.peak, range.peak].
    """

    range: Range
    counts: npt.NDArray[np.int64]

    @property
    def edges(self) -> Float:
        """float64 [BINS + 1]."""
        return np.linspace(-self.range.peak, self.range.peak, BINS + 1)

    def add(self, array: Array) -> None:
        """Count the elements of an array within the range."""
        peak = self.range.peak
        self.counts += np.histogram(array, bins=BINS, range=(-peak, peak))[0]


def measure(
    model: ir.Model,
    names: Collection[str],
    references: Sequence[Reference],
    method: CalibrationMethod,
) -> dict[str, Range]:
    """Ranges by name of value; those without an element, or with one not finite, are left out.

    Args:
        model: In normal form.
        names: Values of its main graph, of floats.
        references: Only inputs are used, of at most `CALIBRATION`.
        method: How ranges are cut.

    Raises:
        UnsupportedError: The graph can't be run.
    """
    chosen = spread(references, CALIBRATION)
    found = {name: Range() for name in names}
    for name, array in _arrays(model, names, chosen):
        found[name].include(array)
    finite = {name: r for name, r in found.items() if np.isfinite([r.low, r.high]).all()}
    if method == "minmax":
        return finite
    histograms = {
        name: Histogram(r, np.zeros(BINS, np.int64)) for name, r in finite.items() if r.peak > 0
    }
    # A second run: bins are as fine as can be only once the range is known.
    for name, array in _arrays(model, histograms, chosen):
        histograms[name].add(array)
    return finite | {name: CUT[method](histogram) for name, histogram in histograms.items()}


def _arrays(
    model: ir.Model, names: Collection[str], references: Sequence[Reference]
) -> Iterator[tuple[str, Array]]:
    """Every value of every run, run by run."""
    for value in model.graph.inputs:
        if value.name in names:
            for reference in references:
                if (array := reference.inputs.get(value.name or "")) is not None:
                    yield value.name or "", array
    produced = [v for node in model.graph for v in node.outputs if v.name in names]
    for batch in batches(produced):
        session = Session(exposing(model, batch))
        inputs = (reference.inputs for reference in references)
        for results in session.each(inputs, [value.name or "" for value in batch]):
            yield from results.items()


def percentile(histogram: Histogram) -> Range:
    """What `PERCENTILE` leaves, exact to a bin: within one, elements count as evenly spread."""
    total = np.concatenate([[0], np.cumsum(histogram.counts)])
    cut = (100 - PERCENTILE) / 200 * total[-1]
    low, high = np.interp([cut, total[-1] - cut], total, histogram.edges)
    return _within(histogram.range, float(low), float(high))


def entropy(histogram: Histogram) -> Range:
    """Symmetric about 0, but not beyond what was seen."""
    counts, middle = histogram.counts, BINS // 2
    halves = range(ENTROPY_LEVELS // 2, middle + 1)
    best = min(halves, key=lambda half: _divergence(counts, middle - half, middle + half + 1))
    edges = histogram.edges
    low, high = float(edges[middle - best]), float(edges[middle + best + 1])
    return _within(histogram.range, low, high)


def _divergence(counts: npt.NDArray[np.int64], start: int, end: int) -> float:
    """Kullback and Leibler's, of the bins from start to end after rounding from those before."""
    inside = counts[start:end].astype(np.float64)
    before = inside.copy()
    before[0] += counts[:start].sum()
    before[-1] += counts[end:].sum()
    if not inside.any():
        return np.inf
    # What doesn't divide by the levels goes into the last one.
    level = np.minimum(
        np.arange(inside.size) // (inside.size // ENTROPY_LEVELS), ENTROPY_LEVELS - 1
    )
    filled = np.bincount(level, before != 0)[level]
    after = np.divide(np.bincount(level, inside)[level], filled, where=before != 0, out=inside * 0)
    p, q = _smoothed(before), _smoothed(after)
    p, q = p / p.sum(), q / q.sum()
    return float(np.sum(p * np.log(p / q)))


def _smoothed(counts: Float) -> Float:
    """Empty bins get a little, which the others lose."""
    empty = counts == 0
    share = SMOOTH * empty.sum() / max(counts.size - empty.sum(), 1)
    return np.where(empty, SMOOTH, np.maximum(counts - share, SMOOTH))


def _within(seen: Range, low: float, high: float) -> Range:
    return Range(max(low, seen.low), min(high, seen.high))


CUT: Mapping[CalibrationMethod, Callable[[Histogram], Range]] = {
    "entropy": entropy,
    "percentile": percentile,
}
"""By method; `minmax` needs no histogram."""
