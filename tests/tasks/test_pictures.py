"""Pictures are read as a browser shows them, and cut the same way every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builder.errors import UsageError
from builder.tasks import pictures


@pytest.mark.parametrize(
    ("mode", "colour", "wanted"),
    [
        ("RGB", (1, 2, 3), [1, 2, 3, 255]),
        ("RGBA", (1, 2, 3, 4), [1, 2, 3, 4]),
        ("L", 7, [7, 7, 7, 255]),
        ("LA", (7, 9), [7, 7, 7, 9]),
        ("1", 1, [255, 255, 255, 255]),
    ],
)
def test_every_mode_becomes_rgba(
    tmp_path: Path, mode: str, colour: int | tuple[int, ...], wanted: list[int]
) -> None:
    Image.new(mode, (3, 2), colour).save(tmp_path / "p.png")
    got = pictures.read(tmp_path / "p.png")
    assert got.shape == (2, 3, 4)
    assert got.dtype == np.uint8
    assert got[0, 0].tolist() == wanted


def test_a_photograph_is_turned_upright(tmp_path: Path) -> None:
    picture = Image.new("RGB", (4, 2), (0, 0, 0))
    picture.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # EXIF 2.3: row 0 is the right side of the picture, column 0 its top
    picture.save(tmp_path / "p.png", exif=exif)
    got = pictures.read(tmp_path / "p.png")
    assert got.shape == (4, 2, 4)
    assert got[0, 1].tolist() == [255, 0, 0, 255]


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"not a picture")
    with pytest.raises(UsageError, match=r"p\.png"):
        pictures.read(tmp_path / "p.png")


def _ramp(height: int, width: int) -> pictures.Pixels:
    y, x = np.indices((height, width))
    return np.stack([y, x, y * 0, y * 0 + 255], axis=-1).astype(np.uint8)


def test_crops_are_parts_of_the_pictures_and_come_after_them() -> None:
    given = [_ramp(100, 200), _ramp(1, 7)]
    made = pictures.crops(given, seed=4)
    assert len(made) == pictures.CROPS
    assert all(a is b for a, b in zip(made, given, strict=False))
    for number, crop in enumerate(made[2:]):
        whole = given[number % 2]
        top, left = (int(side) for side in crop[0, 0, :2])
        height, width = crop.shape[:2]
        assert np.array_equal(crop, whole[top : top + height, left : left + width])
        assert height >= whole.shape[0] // 2
        assert width >= whole.shape[1] // 2


def test_crops_depend_on_the_seed_alone() -> None:
    given = [_ramp(100, 200)]
    first, second, other = (pictures.crops(given, seed) for seed in (4, 4, 5))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_without_pictures_there_are_made_up_ones() -> None:
    made = pictures.crops([], seed=1)
    assert len(made) == pictures.CROPS
    assert all(picture.shape == (256, 256, 4) and picture[..., :3].std() > 20 for picture in made)
    assert not np.array_equal(made[0], made[1])


def test_a_probe_is_small_and_keeps_the_shape() -> None:
    assert pictures.shrink(_ramp(100, 200)).shape == (48, 96, 4)
    assert pictures.shrink(_ramp(50, 20)).shape == (50, 20, 4)
    assert pictures.shrink(_ramp(1, 250)).shape == (1, 96, 4)
    assert pictures.smallest([]).shape == (96, 96, 4)
