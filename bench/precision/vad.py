"""Voice activity: six ONNX encodings of Silero VAD, with state carried from chunk to chunk.

Five take one chunk of 32 ms at 16 kHz a run: `input` f32[1,576], which is 64 samples of the chunk
before and 512 new ones, `state` f32[2,1,128], and some of them `sr` i64[]; they give `output`
f32[1,1], the probability of speech, and `stateN`, the next run's state. The sixth takes all chunks
at once: `input` f32[chunks,576], `h` and `c` f32[1,1,128] to `speech_probs` f32[chunks].
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import onnx

from bench.precision import audio
from bench.precision.case import Case, Floats, Run, Tensors, runner
from builder.fetch import fetch
from builder.model import Array
from builder.recipe import Pinned

FOLDER = "pypi:silero-vad==6.2.3#silero_vad/data"
SHA256 = {
    "silero_vad": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    "silero_vad_16k_op15": "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    "silero_vad_16k_sequence": "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    "silero_vad_half": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    "silero_vad_op18_ifless": "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    "silero_vad_openvino_16k": "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
}
"""Encodings of one network; the first is the package's default, for 8 kHz too."""

SEQUENCE = "silero_vad_16k_sequence"
"""The one that takes all chunks at once."""

CHUNK, BEFORE = 512, 64
"""Samples of a run: new ones, and those of the chunk before."""

STATE = (2, 1, 128)


def encodings() -> list[tuple[str, Path]]:
    """Name and file of each encoding."""
    return [
        (name, fetch(Pinned(ref=f"{FOLDER}/{name}.onnx", sha256=sha256)))
        for name, sha256 in SHA256.items()
    ]


def case(name: str = "silero_vad") -> Case:
    """Every chunk of an English speech to judge on, every 7th of foreign clips to calibrate on.

    The score is on probabilities, the variant's own state carried along: errors may add up.

    Args:
        name: Of the encoding.
    """
    model = dict(encodings())[name]
    inputs = {value.name for value in onnx.load(model).graph.input}
    run = runner(model)
    foreign = np.concatenate([*audio.foreign()[:24]])
    held_back, expected = walk(run, audio.jfk(), inputs)
    calibration, _ = walk(run, foreign, inputs)

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        first, second = (walk(each, audio.jfk(), inputs)[1] for each in (fp32, variant))
        differs = np.abs(first - second)
        return {
            "max_difference": float(np.nan_to_num(differs, nan=1.0).max()),
            "same_decision": float(np.mean((first > 0.5) == (second > 0.5))),
            "speech": float(np.mean(expected > 0.5)),
        }

    # neighbours are alike, and 2,000 runs are more than a conversion wants to see
    return Case(name.replace("_", "-"), model, calibration[::7], held_back, score)


def walk(run: Run, samples: Array, names: Collection[str]) -> tuple[list[Tensors], Floats]:
    """Run over a recording from the start.

    Args:
        run: One of the encodings.
        samples: f32[samples] at 16 kHz.
        names: The encoding's inputs.

    Returns:
        The inputs of each run, and the probability of speech of each chunk, f32[chunks].
    """
    if "h" in names:
        zero = np.zeros(STATE[1:], np.float32)[None]
        whole: Tensors = {"input": np.concatenate([*chunks(samples)]), "h": zero, "c": zero}
        return [whole], run(whole)["speech_probs"].astype(np.float32)
    state: Array = np.zeros(STATE, np.float32)
    seen: list[Tensors] = []
    probabilities: list[Floats] = []
    for chunk in chunks(samples):
        feeds: dict[str, Array] = {"input": chunk, "state": state}
        if "sr" in names:
            feeds["sr"] = np.array(audio.RATE, np.int64)
        results = run(feeds)
        seen.append(feeds)
        state = results["stateN"]
        probabilities.append(results["output"].astype(np.float32).ravel())
    return seen, np.concatenate(probabilities)


def chunks(samples: Array) -> Iterator[Array]:
    """f32[1,576] each: a chunk after the end of the one before; the last one is filled up."""
    padded = np.concatenate([np.zeros(BEFORE, np.float32), samples])
    padded = np.pad(padded, (0, -len(samples) % CHUNK))
    for start in range(0, len(padded) - BEFORE, CHUNK):
        yield padded[None, start : start + BEFORE + CHUNK]
