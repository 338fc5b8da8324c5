"""Thumbnails are small, upright, and the same every time."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builder.bundle import thumbnails


def opened(content: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "WEBP"
    return picture


def test_large_pictures_become_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 255, (10, 16, 3), np.uint8).repeat(100, 0).repeat(100, 1)
    Image.fromarray(blocks).save(tmp_path / "big.png")
    made = thumbnails.thumbnail(tmp_path / "big.png")
    small = opened(made)
    assert small.size == (400, 250)
    expected = blocks[::4, ::4].astype(float)
    assert np.abs(np.asarray(small.convert("RGB"), float) - expected).mean() < 8
    assert made == thumbnails.thumbnail(tmp_path / "big.png")


@pytest.mark.parametrize(("orientation", "size"), [(1, (8, 4)), (6, (4, 8))])
def test_small_ones_keep_their_size_and_are_turned(
    tmp_path: Path, orientation: int, size: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (8, 4), "red").save(tmp_path / "turned.jpg", exif=exif)
    assert opened(thumbnails.thumbnail(tmp_path / "turned.jpg")).size == size


def test_what_is_seen_through_stays_so(tmp_path: Path) -> None:
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    small = opened(thumbnails.thumbnail(tmp_path / "clear.png"))
    assert np.asarray(small.convert("RGBA"))[..., 3].max() == 0
