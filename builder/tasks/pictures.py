"""Pictures as raw RGBA: reading, cutting and making them. Shared by the tasks on images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from builder.errors import UsageError
from builder.model import Model, Tensors
from builder.tasks.task import Decode, Evaluation

Pixels = npt.NDArray[np.uint8]
"""u8[height, width, 4]: red, green, blue, alpha; not premultiplied."""

CROPS = 32
"""Least number of pictures for the accuracy gate: one wrong top answer is then 3 %."""

SMALLEST_CROP = 0.5
"""Of a side, in crops for the accuracy gate."""

PROBE_SIDE = 96
"""Longer side of a probe in pixels: 36 KB raw."""

SYNTHETIC_SIZE = 256
"""Side of pictures made up where the recipe names no samples."""


def read(path: Path) -> Pixels:
    """Decode a picture as a browser does: turned by its EXIF orientation, first frame, 8 bits.

    Raises:
        UsageError: Not a picture.
    """
    try:
        with Image.open(path) as picture:
            turned = ImageOps.exif_transpose(picture)
            return np.asarray(turned.convert("RGBA"))
    except (UnidentifiedImageError, OSError) as error:
        raise UsageError(
            path.name, f"it can't be read as a picture ({error})", "Give a PNG or JPEG file."
        ) from error


def crops(pictures: Sequence[Pixels], seed: int) -> list[Pixels]:
    """The pictures, then random parts of them (50 to 100 % of each side), `CROPS` or more in all.

    Without pictures, made-up ones.
    """
    rng = np.random.default_rng(seed)
    if not pictures:
        return [synthetic(rng) for _ in range(CROPS)]
    result = list(pictures)
    while len(result) < CROPS:
        picture = pictures[len(result) % len(pictures)]
        result.append(_crop(picture, rng))
    return result


def _crop(picture: Pixels, rng: np.random.Generator) -> Pixels:
    bounds = []
    for side in picture.shape[:2]:
        extent = max(1, round(side * rng.uniform(SMALLEST_CROP, 1)))
        begin = int(rng.integers(0, side - extent + 1))
        bounds.append(slice(begin, begin + extent))
    return np.ascontiguousarray(picture[bounds[0], bounds[1]])


def synthetic(rng: np.random.Generator, side: int = SYNTHETIC_SIZE) -> Pixels:
    """A made-up picture: noise with as much contrast at every scale, like a photograph's."""
    total = np.zeros((side, side, 3))
    for octave in range(2, side.bit_length()):
        cells = rng.standard_normal((1 << octave, 1 << octave, 3))
        for channel in range(3):
            layer = Image.fromarray(cells[..., channel].astype(np.float32))
            total[..., channel] += np.asarray(layer.resize((side, side), Image.Resampling.BICUBIC))
    low, high = total.min(), total.max()
    colours = np.round((total - low) / (high - low) * 255).astype(np.uint8)
    return np.dstack([colours, np.full((side, side), 255, np.uint8)])


def shrink(picture: Pixels, side: int = PROBE_SIDE) -> Pixels:
    """The picture with its longer side at most `side` pixels, each the mean of those it covers."""
    height, width = picture.shape[:2]
    factor = side / max(height, width)
    if factor >= 1:
        return picture
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def smallest(pictures: Sequence[Pixels]) -> Pixels:
    """A probe: the first picture made small, or a made-up one."""
    return shrink(pictures[0]) if pictures else synthetic(np.random.default_rng(0), PROBE_SIDE)


def decoder(name: str) -> Decode:
    """`Stages.decode` of a task whose raw input `name` is a picture."""
    return lambda path: {name: read(path)}


def evaluator(name: str, model: Model) -> Evaluation:
    """`Stages.evaluation` of a task whose raw input `name` is a picture."""

    def evaluation(samples: Sequence[Tensors], seed: int) -> list[Tensors]:
        if not samples:
            model.event(
                "warning", "evaluation", "no samples: accuracy is measured on made-up pictures"
            )
        given = [np.asarray(sample[name], np.uint8) for sample in samples]
        return [{name: picture} for picture in crops(given, seed)]

    return evaluation
