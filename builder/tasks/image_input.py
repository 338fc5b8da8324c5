"""Options that say how pictures become a model's input, with defaults read off the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from builder.errors import UsageError
from builder.model import Model, TensorSpec
from builder.prepost.image import CHANNEL_COUNT, Channels, ImageInput
from builder.tasks.task import Options, choose

Layout = Literal["nchw", "nhwc"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Of ImageNet's training pictures on a scale of 0 to 1: what torchvision and timm normalise by."""

CHANNEL_AXIS: dict[Layout, int] = {"nchw": 1, "nhwc": 3}


class ImageOptions(Options):
    """Keys that all tasks on pictures share.

    Attributes:
        input: Name of the model's input for the picture; by default the first with four axes.
        layout: `nchw` or `nhwc`; by default the axis with 1 or 3 channels tells.
        channels: `rgb`, `bgr` or `grey`; by default `rgb` for three channels, `grey` for one.
        range: Scale of the pixels that `mean` and `std` are given on: `0-1` or `0-255`.
        mean: Subtracted from each channel, in the order of `channels`. By default ImageNet's on
            0-1 for a model in floating point with three channels, else 0.
        std: Divided by after that; by default as for `mean`, else 1.
        resize: `linear` or `cubic`, both antialiased.
    """

    input: str | None = None
    layout: Layout | None = None
    channels: Channels | None = None
    range: Literal["0-1", "0-255"] | None = None
    mean: float | list[float] | None = None
    std: float | list[float] | None = None
    resize: Literal["linear", "cubic"] = "linear"


def image_input(model: Model, options: ImageOptions) -> ImageInput:
    """Settle what the model wants.

    Raises:
        UsageError: The model has no input for a picture, or the options don't fit it.
    """
    spec = choose(model.signature.inputs, options.input, "image input", 4)
    if len(spec.shape) != 4:
        raise UsageError(
            f"input '{spec.name}'",
            f"a picture needs four axes and it has the shape {list(spec.shape)}",
            "Name another input in the options, or use task 'tensors'.",
        )
    if isinstance(spec.shape[0], int) and spec.shape[0] != 1:
        raise UsageError(
            f"input '{spec.name}'",
            f"its first axis is {spec.shape[0]} and pictures come one at a time",
            f"If the model takes any batch, say so: shapes = {{ '{spec.name}' = ['batch', …] }}.",
        )
    layout = options.layout or _layout(spec)
    count = spec.shape[CHANNEL_AXIS[layout]]
    channels: Channels = options.channels or ("grey" if count == 1 else "rgb")
    if isinstance(count, int) and count != CHANNEL_COUNT[channels]:
        raise UsageError(
            f"input '{spec.name}'",
            f"it has {count} channels and '{channels}' has {CHANNEL_COUNT[channels]}",
            "Correct `channels` or `layout` in the options.",
        )
    mean, std = _normalisation(spec, options, CHANNEL_COUNT[channels])
    return ImageInput(spec, layout, channels, mean, std, options.resize)


def model_size(target: ImageInput) -> tuple[int | str, int | str]:
    """Height and width as the model declares them."""
    axis = 2 if target.layout == "nchw" else 1
    return target.spec.shape[axis], target.spec.shape[axis + 1]


def _layout(spec: TensorSpec) -> Layout:
    for layout, axis in CHANNEL_AXIS.items():
        if spec.shape[axis] in CHANNEL_COUNT.values():
            return layout
    raise UsageError(
        f"input '{spec.name}'",
        f"no axis of {list(spec.shape)} has 1 or 3 channels",
        "Set `layout` in the options, or correct the shape with `shapes`.",
    )


def _normalisation(
    spec: TensorSpec, options: ImageOptions, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel on pixels of 0 to 255."""
    nothing_said = options.range is None and options.mean is None and options.std is None
    floating = np.dtype(spec.dtype).kind == "f"
    scale = 1.0 if options.range == "0-255" or (options.range is None and not floating) else 255.0
    mean: float | Sequence[float] = 0.0 if options.mean is None else options.mean
    std: float | Sequence[float] = 1.0 if options.std is None else options.std
    if nothing_said and floating and count == len(IMAGENET_MEAN):
        mean, std = IMAGENET_MEAN, IMAGENET_STD
        if options.channels == "bgr":
            mean, std = mean[::-1], std[::-1]
    result = []
    for key, values in (("mean", mean), ("std", std)):
        listed = [values] * count if isinstance(values, int | float) else list(values)
        if len(listed) != count:
            raise UsageError(
                f"option '{key}'", f"it has {len(listed)} numbers for {count} channels"
            )
        if key == "std" and 0 in listed:
            raise UsageError("option 'std'", "pixels can't be divided by 0")
        result.append(tuple(float(value) * scale for value in listed))
    return result[0], result[1]
