"""Word error rates against figures by hand, and jiwer's."""

from __future__ import annotations

from collections.abc import Mapping

import jiwer
import numpy as np
import pytest

from builder.model import Array
from builder.precision.gate import Demand, judge
from builder.precision.metrics import METRICS
from builder.recipe import ModelRecipe

wer = METRICS["wer"].measure
Outputs = dict[str, Array]


def says(*texts: str) -> list[Outputs]:
    return [{"text": np.array([text], object)} for text in texts]


def ids(*rows: list[int]) -> list[Outputs]:
    return [{"ids": np.array([row], np.int64)} for row in rows]


def scores(text: str) -> list[Outputs]:
    """A decoder's choices, f32[1, steps, 26]."""
    letters = [ord(letter) - 97 for letter in text]
    return [{"logits": np.eye(26, dtype=np.float32)[letters][None]}]


@pytest.mark.parametrize(
    ("reference", "variant", "wrong", "words"),
    [
        ("the cat sat", "the cat sat", 0, 3),
        ("the cat sat down", "the dog sat down", 1, 4),  # replaced
        ("the cat sat down", "the cat down", 1, 4),  # left out
        ("the cat sat down", "the big cat sat down", 1, 4),  # put in
        ("the cat sat down", "a dog sat", 3, 4),
        ("one two three four five", "two three four five six", 2, 5),  # all shifted: not 5
        ("no no no no", "no no no", 1, 4),
        ("And so, my fellow Americans!", "and so my fellow americans", 0, 5),
        ("don't stop", "dont stop", 1, 2),
        ("ten", "ten ten ten", 2, 1),  # more wrong than there is
        ("señor 10", "senor 10", 1, 2),
    ],
)
def test_words(reference: str, variant: str, wrong: int, words: int) -> None:
    value = wer(says(reference), says(variant))
    assert value == pytest.approx(max(0, 1 - wrong / words))


def test_words_are_counted_over_all_runs() -> None:
    reference = says("one two three four five six seven eight nine", "ten")
    assert wer(reference, says("one two three four five six seven eight nine", "eleven")) == 0.9


def test_silence() -> None:
    assert wer(says("", "..."), says("", "")) == 1
    assert wer(says(""), says("thank you")) == 0
    assert wer(says("", "a b c d"), says("you", "a b c d")) == 0.75


def test_several_texts_in_one_output_and_none_in_the_other() -> None:
    reference = [{"text": np.array(["a b", "c d"], object)}]
    assert wer(reference, [{"text": np.array(["a b"], object)}]) == 0.5
    assert wer(reference, [{"other": np.zeros(1)}]) == 0
    assert wer([{"text": np.array([b"caf\xc3\xa9 x"])}], [{"text": np.array("Café y")}]) == 0.5


def test_jiwer_counts_the_same() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        first, second = (
            [" ".join(rng.choice(list("abcdef"), size)) for size in rng.integers(1, 12, 3).tolist()]
            for _ in range(2)
        )
        expected = max(0, 1 - float(jiwer.wer(first, second)))
        assert wer(says(*first), says(*second)) == pytest.approx(expected)


def test_ids_of_any_length() -> None:
    assert wer(ids([1, 2, 3, 4]), ids([1, 2, 4])) == 0.75
    assert wer(ids([1, 2, 3, 4]), ids([1, 2, 3, 4, 9, 9])) == 0.5
    assert wer(ids([1, 1, 1, 1]), ids([1, 1])) == 0.5  # repetitions are words


def test_a_decoders_choices() -> None:
    assert wer(scores("aabc"), scores("aabc")) == 1
    assert wer(scores("aabc"), scores("abbc")) == 0.75
    # strings tell more than the scores that they were made of
    assert wer([{**scores("ab")[0], **says("hi")[0]}], [{**scores("xy")[0], **says("hi")[0]}]) == 1


def test_nan_chooses_nothing_and_a_mask_does_no_harm() -> None:
    reference, variant = scores("abcd"), scores("abcd")
    variant[0]["logits"][0, 1, 5] = np.nan
    assert wer(reference, variant) == 0.75
    reference[0]["logits"][0, :, 9] = variant[0]["logits"][0, :, 9] = -np.inf
    assert wer(reference, variant) == 0.75


def test_the_gate_asks_for_one_point() -> None:
    ModelRecipe(source="asr.onnx", metric="wer")

    def finish(_: int, outputs: Mapping[str, Array]) -> Outputs:
        """Ids to words, as a stage behind the model would make them."""
        return {"text": np.array(" ".join(f"w{i}" for i in outputs["y"][0].astype(int)), object)}

    said = np.arange(1000, dtype=np.float32)[None]
    near, far = said.copy(), said.copy()
    near[0, :10] += 0.9  # no other word
    far[0, 10:21] = 3
    for array, passed, rate in ((near, True, "100.0"), (far, False, "98.9")):
        demand = Demand("wer", finish=finish)
        verdict = judge("int8", [{"y": said}], [{"y": array}], demand)
        assert verdict.passed is passed
        expected = f"Words as fp32 writes them {rate} %, asked for 99.0 %"
        assert verdict.reason.startswith(expected)
