"""Real models and real inputs that conversions to fewer bits are judged on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bench.precision import efficientnet, minilm, ocr, smollm, vad, whisper
from bench.precision.case import Case, Run, Score, Tensors, Together

__all__ = ["CASES", "Case", "Run", "Score", "Tensors", "Together"]

CASES: Mapping[str, Callable[[], Case | Together]] = {
    "minilm": minilm.case,
    "whisper-tiny-en": whisper.both,
    "whisper-tiny-en-encoder": whisper.encoder,
    "whisper-tiny-en-decoder": whisper.decoder,
    "smollm2-135m": smollm.case,
    "ppocr-v4-rec": ocr.case,
    "efficientnet-lite0": efficientnet.case,
    **{name.replace("_", "-"): partial(vad.case, name) for name in vad.SHA256},
}
"""By name; the first call of one may take minutes: it fetches and exports its model."""
