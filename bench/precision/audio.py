"""Speech to judge and to calibrate on: 27 clips in nine languages, and John F. Kennedy."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from scipy.io import wavfile  # type: ignore[import-untyped]

from builder.fetch import fetch
from builder.model import Array
from builder.recipe import Pinned

RATE = 16000
"""Samples a second, of every clip."""

JFK = Pinned(
    ref="npm:nodejs-whisper@0.3.1#cpp/whisper.cpp/bindings/go/samples/jfk.wav",
    sha256="59dfb9a4acb36fe2a2affc14bacbee2920ff435cb13cc314a08c13f66ba7860e",
)
JFK_TEXT = (
    "And so my fellow Americans, ask not what your country can do for you, "
    "ask what you can do for your country."
)

CLIPS = "pypi:pytest-audioeval==0.1.3#pytest_audioeval/samples/audio"
SHA256 = {
    "en/counting": "2b69b8f7894de9774e7433db6bfa1874944e25ed806826c507bed27b9e69fe15",
    "en/hello_world": "264c92e881fcc3bb7585ff666d129095fb5717c2cc333d10f253a34186be78ac",
    "en/quick_brown_fox": "adc24a9b99267932370842f0d5be866dc2cd09e65af9762469c198493e36870b",
    "es/conteo": "4080f4ca26975a4a1c1c5310ce79743c975e1dc5c1b6655ec0f2529bb3ea8a80",
    "es/hola_mundo": "ee876f57498ec0dbc0ccce2b9bc207a4df353eb1dfe47b300c3cb2c8888f95f4",
    "es/pangrama": "914d8b7fe3875262c3a68b903e0decaad251130f1ddd1237414ddb51e7651ee8",
    "fr/bonjour_monde": "f7190d41c9773c9337db40020c74be9e1b965fdddb1da91f90b5d57aa28d38d7",
    "fr/comptage": "aee8ec3208fe97fbc708c986f30c3fd1d808b70ff1fde61a1d3cadeb85ef2c2f",
    "fr/pangrama": "97aee6fca112f4c562aed53be97fb715f744f5ec072e1f4a30ffaf94324da361",
    "hi/ginti": "5655476d495593c5a7f38ac71e907f00447af35cc1ca52c6c5715e6e151e4904",
    "hi/namaste_duniya": "957f5cbd2671541702af5460a0f2b16b877694ff338c085cc300740e53d73e85",
    "hi/pangrama": "101cbcaf3254e0e9f6dc54b41bef2d25622c1039b35367499542837d69a136a6",
    "it/ciao_mondo": "6d520eebfaaf9d2f0f8b4ceb45f2fb653404cb4dbf73ce9fbd951ad126d84323",
    "it/conteggio": "73440dca18da0d1b00efef143e2eeb6810711cf330132b45a82c0123bce6a8b7",
    "it/pangrama": "6a5fc04102c280d8a7efc3bb56b8d87646609e17562d6cd5de9d03a3c07d756c",
    "ja/kazoeru": "25a1c7305c61842f8115f98b065a79a3c2120aee73c50ddda1371a9d1f9774d0",
    "ja/konnichiwa_sekai": "b9fdd20f52267e53bdf8054e409e3aa24a4db9496a9ad9ced2032859de9bb3ad",
    "ja/pangrama": "4ccc474a2ab1026ecb093dfcbe66ca737bad8dc3f4ef25842fe4dc50ff066098",
    "pl/liczenie": "517cae82e4e1095dcf77d8402f085999373b06fb07f09a1cc09863dd9b06724e",
    "pl/pangrama": "551873d2ecd902cdeba1863a0177dfc6e0ea547717ae6d9a45c1d8c00eb2bffc",
    "pl/witaj_swiecie": "05f673050e1947d53463dff5f42d54d1b28b140adf0c1c1cde06dac5704855ec",
    "pt/contagem": "da92e61221c25496fbf5f8bda952e0228cbf4333d37d3cc3e1a19be25b2f0dcc",
    "pt/ola_mundo": "65ebc7d461b10e09f0f84215c993eebfc169922dda8ed57f49de5535f97014d0",
    "pt/pangrama": "9f4c4e8dd1ac5ab85ce33a0e94696b70821957801f34728947f70350eb676774",
    "zh/jishu": "8c150057c49d9f52fa0125df8159912258cc83cb644b49569b142442c9e84658",
    "zh/nihao_shijie": "1cd088849752b45c515d258fac9370448a74eca802feece0e484bca6327280a0",
    "zh/pangrama": "b7d55e74f50d39226624506eef308be97553af66cee6334b4df1fba675ce2cc6",
}
"""Of each clip's WAV file."""

TEXTS = {
    "en/counting": "One two three four five six seven eight nine ten.",
    "en/hello_world": "Hello world.",
    "en/quick_brown_fox": "The quick brown fox jumps over the lazy dog.",
}
"""What is said in the English ones."""


def jfk() -> Array:
    """11 s of English, f32[samples] within [-1, 1]."""
    return _read(fetch(JFK))


def clip(name: str) -> Array:
    """A clip of 1 to 5 s by language and name, f32[samples] within [-1, 1]."""
    return _read(fetch(Pinned(ref=f"{CLIPS}/{name}.wav", sha256=SHA256[name])))


def foreign() -> list[Array]:
    """Clips for calibration: 24 in other languages than English, and those of each joined."""
    names = [name for name in SHA256 if name not in TEXTS]
    languages = sorted({name.partition("/")[0] for name in names})
    joined = [
        np.concatenate([clip(name) for name in names if name.startswith(f"{language}/")])
        for language in languages
    ]
    return [*map(clip, names), *joined]


def _read(path: Path) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks of metadata
        rate, samples = wavfile.read(path)
    if rate != RATE or samples.ndim != 1:
        raise ValueError(f"{path.name} isn't mono at {RATE} Hz")
    scale = 32768 if samples.dtype == np.int16 else 1
    array: Array = samples.astype(np.float32) / np.float32(scale)
    return array
