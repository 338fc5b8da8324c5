"""Word error rate of speech recognition: how many words a variant writes otherwise than fp32."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from rapidfuzz.distance import Levenshtein

from builder.model import Array

WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
"""Letters and digits, apostrophes between them: no punctuation, which nobody says."""


def wer(
    references: Sequence[Mapping[str, Array]], variants: Sequence[Mapping[str, Array]]
) -> float:
    """1 less the word error rate, 0 to 1: words that were put in, left out or replaced (least
    number, over all runs) by the words of the references.

    Read is the first output of strings, each a text; else the first output with an axis:

    - integers [..., steps]: ids of tokens or words, each counts as one;
    - floats [..., steps, symbols]: a decoder's scores, the likeliest symbol of each step counts as
      one. The inputs hold what the reference wrote, so each step sees the same text before it: a
      wrong choice counts once, whatever would have followed from it.

    Frames with blanks and repetitions (CTC) are no words: see `text` and `tokens`, or let the stage
    behind the model make strings of them.

    Edit distance is a metric: a variant within 1 point here is within 1 point of fp32 against what
    was really said too, where fp32 writes as many words as were said.
    """
    wrong = total = 0
    for reference, variant in zip(references, variants, strict=True):
        name = _written(reference)
        both = [_sequences(run[name]) if name in run else [] for run in (reference, variant)]
        for expected, found in zip_longest(*both, fillvalue=()):
            wrong += Levenshtein.distance(expected, found)
            total += len(expected)
    if total == 0:
        return float(wrong == 0)
    return max(0.0, 1 - wrong / total)


def _written(outputs: Mapping[str, Array]) -> str:
    strings = [name for name, array in outputs.items() if array.dtype.kind in "OSU"]
    return next(iter([*strings, *(name for name, array in outputs.items() if array.ndim)]), "")


def _sequences(array: Array) -> list[Sequence[Hashable]]:
    """What is written in each text of an output."""
    if array.dtype.kind in "OSU":
        return [WORD.findall(_text(item).casefold()) for item in array.reshape(-1).tolist()]
    if array.dtype.kind == "f" and array.ndim > 1:
        valid = ~np.isnan(array).any(axis=-1)  # NaN chooses nothing
        array = np.where(valid, array.argmax(axis=-1), -1)
    return [*array.reshape(-1, array.shape[-1]).tolist()] if array.size else []


def _text(item: object) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
