"""Text recognition: PP-OCRv4 on the lines of a photographed page.

The graph maps `x`, BGR f32[batch,3,48,width] within [-1, 1], to probabilities
f32[batch,steps,6625] of the blank, the characters in the model's metadata, and the space. It has no
initializers: all weights are in Constant nodes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from bench.precision import prose
from bench.precision.case import Case, Run, Tensors, cosine
from builder.fetch import fetch
from builder.model import Array
from builder.recipe import Pinned

MODEL = Pinned(
    ref="pypi:rapidocr-onnxruntime==1.4.4#rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
)
PAGE = Pinned(
    ref="pypi:scikit-image==0.26.0#skimage/data/page.png",
    sha256="341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
)
TEXT = Pinned(
    ref="pypi:scikit-image==0.26.0#skimage/data/text.png",
    sha256="bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1",
)

HEIGHT = 48
"""Of a line in pixels, as the model was trained."""

DARKER = 20
"""Grey levels below its surroundings: ink."""


def case() -> Case:
    """The page's lines to judge; drawn lines and strips of handwriting to calibrate on."""
    model = fetch(MODEL)
    letters = characters(model)
    with Image.open(fetch(PAGE)) as page:
        held_back = [tensor(line) for line in lines(page.convert("L"))]
    with Image.open(fetch(TEXT)) as picture:
        strips = [picture.crop((0, top, picture.width, top + 43)) for top in (0, 43, 86, 129)]
    drawn = [draw(sentence, index) for index, sentence in enumerate(prose.sentences(60, seed=2))]
    calibration = [tensor(line) for line in (*drawn, *strips)]

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        pairs = [(_only(fp32(inputs)), _only(variant(inputs))) for inputs in held_back]
        same = [decode(first, letters) == decode(second, letters) for first, second in pairs]
        return {
            "same_text": float(all(same)),
            "same_lines": float(np.mean(same)),
            "cosine_min": min(cosine(first, second) for first, second in pairs),
        }

    return Case("ppocr-v4-rec", model, calibration, held_back, score, lambda _: held_back)


def lines(page: Image.Image) -> list[Image.Image]:
    """Cut a grey page into lines of text, top to bottom.

    A row belongs to a line if enough of it is darker than what is around it; rules are too low to
    be lines.
    """
    grey = np.asarray(page, np.float32)
    around = np.asarray(page.filter(ImageFilter.BoxBlur(15)), np.float32)
    ink = (around - grey > DARKER).sum(axis=1) > page.width // 50
    edges = np.flatnonzero(np.diff(np.concatenate([[0], ink.astype(np.int8), [0]])))
    return [
        page.crop((0, max(0, top - 2), page.width, min(page.height, bottom + 2)))
        for top, bottom in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if bottom - top >= 6
    ]


def draw(sentence: str, seed: int) -> Image.Image:
    """A line of text as on a photograph of a page: shaded, tilted, blurred and noisy."""
    rng = random.Random(seed)
    font = ImageFont.load_default(rng.uniform(11, 28))
    shown = sentence[: rng.randint(10, 60)]
    width, height = math.ceil(font.getlength(shown)) + 16, rng.randint(30, 40)
    line = Image.new("L", (width, height), 255)
    ImageDraw.Draw(line).text(
        (8, height // 2), shown, fill=rng.randint(0, 60), font=font, anchor="lm"
    )
    line = line.rotate(rng.uniform(-0.7, 0.7), Image.Resampling.BICUBIC, fillcolor=255)
    line = line.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.9)))
    shade = np.linspace(rng.uniform(0.4, 1), rng.uniform(0.4, 1), width)
    noise = np.random.default_rng(seed).normal(0, rng.uniform(0, 6), (height, width))
    grey = np.clip(np.asarray(line, np.float32) * shade + noise, 0, 255)
    return Image.fromarray(grey.astype(np.uint8))


def tensor(line: Image.Image) -> Tensors:
    """A grey line as the model wants it: f32[1,3,48,width] within [-1, 1], as wide as it gets."""
    width = math.ceil(line.width * HEIGHT / line.height)
    scaled = line.resize((width, HEIGHT), Image.Resampling.BILINEAR)
    values = (np.asarray(scaled, np.float32) / 255 - 0.5) / 0.5
    return {"x": np.repeat(values[None, None], 3, axis=1)}  # all channels are equal in grey


def characters(model: Path) -> list[str]:
    """By class: the blank, the metadata's lines, and the space."""
    metadata = {entry.key: entry.value for entry in onnx.load(model).metadata_props}
    return ["", *metadata["character"].split("\n"), " "]


def decode(probabilities: Array, letters: Sequence[str]) -> str:
    """The likeliest text of f32[1,steps,classes], by CTC: repeats are one, blanks are none."""
    best: list[int] = np.argmax(probabilities[0], axis=-1).tolist()
    return "".join(letters[now] for before, now in pairwise([0, *best]) if now not in (0, before))


def _only(outputs: dict[str, Array]) -> Array:
    (output,) = outputs.values()
    return output
