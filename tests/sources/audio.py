"""John F. Kennedy, 11 s, and what he says."""

from __future__ import annotations

import wave

import numpy as np
import numpy.typing as npt

from builder.fetch import fetch
from builder.recipe import Pinned

FILE = Pinned(
    ref="npm:nodejs-whisper@0.3.1#cpp/whisper.cpp/bindings/go/samples/jfk.wav",
    sha256="59dfb9a4acb36fe2a2affc14bacbee2920ff435cb13cc314a08c13f66ba7860e",
)

JFK = (
    "And so my fellow Americans ask not what your country can do for you, "
    "ask what you can do for your country."
)
"""As Whisper tiny.en writes it."""


def jfk() -> npt.NDArray[np.float32]:
    """Samples f32[176000] at 16 kHz, in -1..1."""
    with wave.open(str(fetch(FILE))) as file:
        frames = file.readframes(file.getnframes())
    return (np.frombuffer(frames, "<i2") / 32768).astype(np.float32)
