"""Raw RGBA pixels to a model's input: alpha over white, crop or stretch, resize, normalise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from builder.model import TensorSpec
from builder.prepost.draft import Attribute, Draft, Operand

Channels = Literal["rgb", "bgr", "grey"]

CHANNEL_COUNT: dict[Channels, int] = {"rgb": 3, "bgr": 3, "grey": 1}

LUMA = np.array([[0.299], [0.587], [0.114]], np.float32)
"""Weights of red, green and blue in ITU-R BT.601 luma, which Pillow's mode L also uses."""

# Pillow and PyTorch cut a kernel at the border and bring the rest to a sum of 1; so does
# `exclude_outside`, while the default repeats the border. Their bicubic is Keys' with a = -0.5.
RESIZE: dict[str, dict[str, Attribute]] = {
    "linear": {"mode": "linear", "exclude_outside": 1},
    "cubic": {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
}
"""Attributes of Resize by the name of the option."""


@dataclass(frozen=True)
class Placement:
    """How a picture of any size gets the model's size.

    Attributes:
        kind: `crop` cuts the centre in the shape of `size`; `stretch` ignores the shape; `fit`
            keeps it up to a rounding to `multiple`, and never enlarges beyond that.
        size: Height and width for `crop` and `stretch`.
        ratio: Side of the crop relative to the largest that fits.
        long_side: Upper limit of the longer side for `fit`, a multiple of `multiple`.
        multiple: What height and width are rounded up to for `fit`.
    """

    kind: Literal["crop", "stretch", "fit"]
    size: tuple[int, int] = (0, 0)
    ratio: float = 1.0
    long_side: int = 640
    multiple: int = 32


@dataclass(frozen=True)
class ImageInput:
    """What the model wants: `(pixel - mean) / std` on pixels of 0..255.

    Attributes:
        spec: The model's own input.
        layout: Order of its axes.
        channels: Which colour comes first, or grey.
        mean: Per channel, in the order of `channels`.
        std: Per channel, in the order of `channels`.
        resize: Key of `RESIZE`.
    """

    spec: TensorSpec
    layout: Literal["nchw", "nhwc"]
    channels: Channels
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: str = "linear"


def image_pre(
    target: ImageInput, placement: Placement, *, name: str = "image", size_name: str | None = None
) -> ir.Model:
    """Build the graph.

    It takes `name` u8[height, width, 4], RGBA and not premultiplied, and gives the model's input
    for a batch of one. Pixels stay bytes until they have the model's size: a photograph of twelve
    megapixels costs 48 MB as bytes and four times that as floats.

    Args:
        target: The model's input.
        placement: Where in it the picture goes.
        name: Of the graph's input.
        size_name: Of a second output i64[2], the picture's height and width, where the
            post-processing has use for it.
    """
    g = Draft("image_pre")
    image = g.input(
        name,
        "uint8",
        ["height", "width", 4],
        description="A picture: rows of pixels, each red, green, blue and alpha from 0 to 255.",
    )
    size = g.add("Shape", image, start=0, end=2, name="image_size")
    pixels = image
    if placement.kind == "crop":
        pixels = _centre(g, image, size, placement)
    pixels = g.add("Unsqueeze", pixels, np.array([0]), name="batch_of_one")
    pixels = _over_white(g, pixels)
    pixels = _resized(g, pixels, size, placement, target.resize)
    pixels = g.add("Cast", pixels, to=ir.DataType.FLOAT, name="float_pixels")
    if target.channels == "bgr":
        pixels = g.add("Gather", pixels, np.array([2, 1, 0]), axis=3, name="bgr")
    if target.channels == "grey":
        pixels = g.add("MatMul", pixels, LUMA, name="grey")
    pixels = g.add("Sub", pixels, np.array(target.mean, np.float32), name="centred")
    pixels = g.add("Div", pixels, np.array(target.std, np.float32), name="scaled")
    if target.layout == "nchw":
        pixels = g.add("Transpose", pixels, perm=[0, 3, 1, 2], name="planes")
    pixels = _cast(g, pixels, target.spec.dtype)
    g.output(pixels, target.spec.name, target.spec.dtype, _output_shape(target, placement))
    if size_name is not None:
        g.output(
            size, size_name, "int64", [2], description="Height and width of the picture given."
        )
    return g.model()


def _centre(g: Draft, image: ir.Value, size: ir.Value, placement: Placement) -> ir.Value:
    """The largest centred part with the shape of the target, times the ratio, at least 1x1."""
    target = np.array(placement.size, np.float32)
    height_width = g.add("Cast", size, to=ir.DataType.FLOAT, name="image_size_float")
    factors = g.add("Div", height_width, target, name="shrink_factors")
    factor = g.add("ReduceMin", factors, keepdims=0, name="shrink_factor")
    exact = g.add("Mul", factor, target * np.float32(placement.ratio), name="crop_size_exact")
    rounded = g.add("Add", exact, np.float32(0.5), name="crop_size_plus_half")
    whole = g.add("Floor", rounded, name="crop_size_float")
    positive = g.add("Max", whole, np.float32(1), name="crop_size_positive")
    inside = g.add("Min", positive, height_width, name="crop_size_inside")
    crop = g.add("Cast", inside, to=ir.DataType.INT64, name="crop_size")
    rest = g.add("Sub", size, crop, name="crop_rest")
    begin = g.add("Div", rest, np.array(2), name="crop_begin")
    end = g.add("Add", begin, crop, name="crop_end")
    return g.add("Slice", image, begin, end, np.array([0, 1]), name="crop")


def _over_white(g: Draft, pixels: ir.Value) -> ir.Value:
    """RGBA u8[1,h,w,4] over white: u8[1,h,w,3]; floats are used only where something shows."""

    def channels(draft: Draft, first: int, last: int, name: str) -> ir.Value:
        bounds = np.array([first]), np.array([last])
        return draft.add("Slice", pixels, *bounds, np.array([3]), name=name)

    alpha = channels(g, 3, 4, "alpha")
    lowest = g.add("ReduceMin", alpha, keepdims=0, name="lowest_alpha")
    opaque = g.add("Equal", lowest, np.array(255, np.uint8), name="opaque")

    plain = Draft("opaque_picture", prefix="opaque_")
    plain.output(channels(plain, 0, 3, "colour"), "opaque_result", "uint8", [1, "ch", "cw", 3])

    mixed = Draft("transparent_picture", prefix="transparent_")
    colour = channels(mixed, 0, 3, "colour_bytes")
    colour = mixed.add("Cast", colour, to=ir.DataType.FLOAT, name="colour")
    # Its own Slice: onnxruntime warns on the console where a branch uses one from outside.
    cover = channels(mixed, 3, 4, "alpha_bytes")
    cover = mixed.add("Cast", cover, to=ir.DataType.FLOAT, name="alpha")
    cover = mixed.add("Div", cover, np.float32(255), name="cover")
    darkness = mixed.add("Sub", np.float32(255), colour, name="darkness")
    shown = mixed.add("Mul", darkness, cover, name="darkness_shown")
    over = mixed.add("Sub", np.float32(255), shown, name="over_white")
    over = mixed.add("Round", over, name="over_white_rounded")
    over = mixed.add("Cast", over, to=ir.DataType.UINT8, name="over_white_bytes")
    mixed.output(over, "transparent_result", "uint8", [1, "ch", "cw", 3])

    return g.add("If", opaque, then_branch=plain.graph(), else_branch=mixed.graph(), name="colour")


def _resized(
    g: Draft, pixels: ir.Value, size: ir.Value, placement: Placement, resize: str
) -> ir.Value:
    """Antialiased, in bytes, channels last.

    All four sizes are given rather than two with `axes`: onnxruntime 1.32 moves a Transpose across
    a Resize with `axes` and then fails on its own rewriting.
    """
    sizes: Operand = np.array([1, *placement.size, 3])
    if placement.kind == "fit":
        sizes = g.add(
            "Concat", np.array([1]), _fit(g, size, placement), np.array([3]), axis=0, name="sizes"
        )
    return g.add("Resize", pixels, None, None, sizes, antialias=1, name="resized", **RESIZE[resize])


def _fit(g: Draft, size: ir.Value, placement: Placement) -> ir.Value:
    """Height and width rounded up to the multiple, after shrinking to the long side.

    In whole numbers: `ceil(size * cap / max(longest, cap) / multiple) * multiple`.
    """
    cap, multiple = np.array([placement.long_side]), np.array([placement.multiple])
    longest = g.add("ReduceMax", size, keepdims=1, name="longest")
    longest = g.add("Max", longest, cap, name="longest_or_cap")
    divisor = g.add("Mul", longest, multiple, name="fit_divisor")
    dividend = g.add("Mul", size, cap, name="fit_dividend")
    dividend = g.add("Add", dividend, divisor, name="fit_dividend_up")
    dividend = g.add("Sub", dividend, np.array([1]), name="fit_dividend_ceil")
    steps = g.add("Div", dividend, divisor, name="fit_steps")
    return g.add("Mul", steps, multiple, name="fit_size")


def _cast(g: Draft, pixels: ir.Value, dtype: str) -> ir.Value:
    if dtype == "float32":
        return pixels
    if not dtype.startswith("float"):
        pixels = g.add("Round", pixels, name="whole_pixels")
    to = ir.DataType.from_numpy(np.dtype(dtype))
    return g.add("Cast", pixels, to=to, name="typed_pixels")


def _output_shape(target: ImageInput, placement: Placement) -> list[int | str]:
    height, width = ("model_height", "model_width") if placement.kind == "fit" else placement.size
    count = CHANNEL_COUNT[target.channels]
    return [1, count, height, width] if target.layout == "nchw" else [1, height, width, count]
