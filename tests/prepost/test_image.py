"""Pictures become model inputs as Pillow and PyTorch would make them, from every size and shape."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
import torch
from PIL import Image

from builder.model import TensorSpec
from builder.prepost import ImageInput, Placement, image_pre
from builder.prepost.image import Channels
from builder.session import Session

Pixels = npt.NDArray[np.uint8]

PILLOW = {"linear": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC}

LEVELS = 2
"""Largest difference to Pillow in grey levels of 255: rounding of each of two passes to a byte."""


def _target(
    channels: Channels = "rgb", resize: str = "linear", dtype: str = "float32"
) -> ImageInput:
    count = 1 if channels == "grey" else 3
    spec = TensorSpec("x", dtype, (1,))
    return ImageInput(spec, "nhwc", channels, (0.0,) * count, (1.0,) * count, resize)


def _photo(height: int, width: int, seed: int = 0) -> Pixels:
    """Something with contrast at all scales, opaque."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)
    noise = rng.integers(-40, 41, (height, width, 1), np.int16)
    colours = np.clip(smooth + noise, 0, 255).astype(np.uint8)
    return np.dstack([colours, np.full((height, width), 255, np.uint8)])


def _run(picture: Pixels, target: ImageInput, placement: Placement) -> npt.NDArray[np.float32]:
    model = image_pre(target, placement)
    return np.asarray(Session(model).run({"image": picture})["x"][0], np.float32)


@pytest.mark.parametrize("resize", ["linear", "cubic"])
@pytest.mark.parametrize("shape", [(300, 451), (64, 80), (1000, 130), (97, 640)])
def test_stretching_agrees_with_pillow(resize: str, shape: tuple[int, int]) -> None:
    picture = _photo(*shape)
    got = _run(picture, _target(resize=resize), Placement("stretch", (128, 96)))
    plain = Image.fromarray(np.ascontiguousarray(picture[..., :3]))
    wanted = np.asarray(plain.resize((96, 128), PILLOW[resize]), np.float32)
    assert np.abs(got - wanted).max() <= LEVELS
    assert np.abs(got - wanted).mean() < 0.3


def test_stretching_agrees_with_torch() -> None:
    picture = _photo(333, 500)
    got = _run(picture, _target(resize="cubic"), Placement("stretch", (112, 112)))
    planes = torch.tensor(picture[..., :3]).permute(2, 0, 1)[None].float()
    wanted = torch.nn.functional.interpolate(planes, (112, 112), mode="bicubic", antialias=True)
    wanted = wanted.clamp(0, 255)[0].permute(1, 2, 0)
    assert np.abs(got - wanted.numpy()).max() <= LEVELS


@pytest.mark.parametrize("shape", [(300, 451), (451, 300), (224, 224), (1, 1), (1, 300), (300, 1)])
@pytest.mark.parametrize("ratio", [1.0, 0.875])
def test_the_centre_is_cut_out_in_the_targets_shape(shape: tuple[int, int], ratio: float) -> None:
    picture = _photo(*shape)
    got = _run(picture, _target(), Placement("crop", (64, 64), ratio))
    side = max(1, int(min(shape) * ratio + 0.5))
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    cut = Image.fromarray(np.ascontiguousarray(picture[top : top + side, left : left + side, :3]))
    wanted = np.asarray(cut.resize((64, 64), Image.Resampling.BILINEAR), np.float32)
    assert np.abs(got - wanted).max() <= LEVELS


def test_a_crop_keeps_the_shape_of_a_target_that_is_not_square() -> None:
    # 100 x 400 into 50 x 100: the largest centred part twice as wide as high is 100 x 200.
    picture = np.zeros((100, 400, 4), np.uint8)
    picture[..., 3] = 255
    picture[:, 100:300, 0] = 200
    got = _run(picture, _target(), Placement("crop", (50, 100)))
    assert got.shape == (50, 100, 3)
    assert (got[..., 0] == 200).all()


def test_twelve_megapixels_of_a_phone_held_upright() -> None:
    tile = _photo(200, 150)
    picture = np.tile(tile, (20, 20, 1))
    assert picture.shape == (4000, 3000, 4)
    got = _run(picture, _target(), Placement("crop", (224, 224)))
    cut = Image.fromarray(np.ascontiguousarray(picture[500:3500, :, :3]))
    wanted = np.asarray(cut.resize((224, 224), Image.Resampling.BILINEAR), np.float32)
    assert np.abs(got - wanted).max() <= LEVELS


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        # Rounded up to 32; over 640 the longer side becomes 640 first: by hand.
        ((512, 512), (512, 512)),
        ((300, 451), (320, 480)),
        ((3000, 4000), (480, 640)),
        ((4000, 3000), (640, 480)),
        ((427, 641), (448, 640)),
        ((1, 1), (32, 32)),
        ((1, 5000), (32, 640)),
        ((640, 33), (640, 64)),
    ],
)
def test_fitting_rounds_up_to_the_multiple(given: tuple[int, int], wanted: tuple[int, int]) -> None:
    picture = np.full((*given, 4), 255, np.uint8)
    model = image_pre(_target(), Placement("fit"), size_name="image_size")
    results = Session(model).run({"image": picture})
    assert results["x"].shape == (1, *wanted, 3)
    assert results["image_size"].tolist() == list(given)


def test_alpha_is_laid_over_white() -> None:
    # By hand: c * a + 255 * (1 - a), a = alpha / 255.
    picture = np.array(
        [[[10, 20, 30, 255], [10, 20, 30, 0], [0, 255, 100, 51], [200, 0, 50, 102]]], np.uint8
    )
    got = _run(picture, _target(), Placement("stretch", (1, 4)))
    assert got[0].tolist() == [[10, 20, 30], [255, 255, 255], [204, 255, 224], [233, 153, 173]]


def test_an_opaque_picture_is_the_same_beside_a_transparent_pixel() -> None:
    picture = _photo(40, 40)
    seen = picture.copy()
    seen[0, 0, 3] = 254
    placement = Placement("stretch", (40, 40))
    plain, mixed = (_run(p, _target(), placement) for p in (picture, seen))
    assert np.array_equal(plain.reshape(-1, 3)[1:], mixed.reshape(-1, 3)[1:])
    assert np.array_equal(plain, picture[..., :3])


def test_channel_order_layout_and_normalisation() -> None:
    picture = np.array([[[255, 0, 51, 255]]], np.uint8)
    placement = Placement("stretch", (1, 1))
    spec = TensorSpec("x", "float32", (1, 3, 1, 1))
    target = ImageInput(spec, "nchw", "bgr", (51.0, 10.0, 127.0), (2.0, 5.0, 128.0))
    model = image_pre(target, placement)
    got = Session(model).run({"image": picture})["x"]
    # Blue, green, red by hand: (51-51)/2, (0-10)/5, (255-127)/128.
    assert got.shape == (1, 3, 1, 1)
    assert got.ravel().tolist() == [0, -2, 1]


def test_grey_is_pillows_luma() -> None:
    picture = _photo(32, 32)
    got = _run(picture, _target("grey"), Placement("stretch", (32, 32)))
    wanted = np.asarray(Image.fromarray(picture).convert("RGB").convert("L"), np.float32)
    assert np.abs(got[..., 0] - wanted).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32"])
def test_the_models_own_dtype_is_kept(dtype: str) -> None:
    picture = _photo(8, 8)
    model = image_pre(_target(dtype=dtype), Placement("stretch", (8, 8)))
    got = Session(model).run({"image": picture})["x"][0]
    assert got.dtype == dtype
    assert np.array_equal(got, picture[..., :3].astype(dtype))


@pytest.mark.parametrize("kind", ["crop", "stretch", "fit"])
def test_graphs_are_valid_and_the_same_every_time(kind: str) -> None:
    placement = Placement(kind, (8, 8))  # type: ignore[arg-type]
    first, second = (ir.to_proto(image_pre(_target(), placement)) for _ in range(2))
    onnx.checker.check_model(first, full_check=True)
    assert first.SerializeToString() == second.SerializeToString()
    assert {opset.domain for opset in first.opset_import} == {""}
