"""Face detection with CenterFace's kind of head: a picture to boxes, scores and landmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from builder.errors import UsageError
from builder.model import Array, Model, Tensors, TensorSpec
from builder.prepost.draft import free_name
from builder.prepost.faces import centerface_post
from builder.prepost.image import Placement, image_pre
from builder.tasks import pictures
from builder.tasks.image_input import ImageOptions, image_input
from builder.tasks.run import Runner, interface
from builder.tasks.task import Stages, Task, parse, taken_names

NAME = "face-detection"

MAPS = {"heat map": 1, "scale": 2, "offset": 2, "landmarks": 10}
"""The model's outputs with their numbers of channels, in the order of option `outputs`."""

MARGIN = 0.5
"""Of a face's longer side, left around it in the picture cut out for the probe."""


class FaceOptions(ImageOptions):
    """Keys of `[models.options]`, beside those of `ImageOptions`.

    Attributes:
        range: By default `0-255` here: detectors of this kind take pixels as they are.
        outputs: Names of heat map, scale, offset and landmarks; by default the model's first four.
        long_side: Larger pictures are shrunk to this many pixels, a multiple of 32.
        score_threshold: Default of the input of that name.
        iou_threshold: Default of the input of that name.
        limit: Most faces reported.
    """

    outputs: tuple[str, ...] = ()
    long_side: int = Field(default=640, gt=0, multiple_of=32)
    score_threshold: float = Field(default=0.5, ge=0, le=1)
    iou_threshold: float = Field(default=0.3, ge=0, le=1)
    limit: int = Field(default=200, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _whole_pixels(cls, options: dict[str, Any]) -> dict[str, Any]:
        return {"range": "0-255", **options}


def build(model: Model, options: Mapping[str, Any], files: Mapping[str, Path]) -> Stages:
    """Put decoding of pictures and of the model's maps around a detector.

    Raises:
        UsageError: Options that are unknown, wrong, or don't fit the model.
    """
    del files
    chosen = parse(FaceOptions, options, NAME)
    target = image_input(model, chosen)
    taken = taken_names(model)
    image, size_name = (free_name(name, taken, "raw_") for name in ("image", "image_size"))
    boxes, scores, landmarks, score_threshold, iou_threshold = (
        free_name(name, taken, "face_")
        for name in ("boxes", "scores", "landmarks", "score_threshold", "iou_threshold")
    )
    pre = image_pre(
        target, Placement("fit", long_side=chosen.long_side), name=image, size_name=size_name
    )
    post = centerface_post(
        _maps(model, chosen),
        score_threshold=chosen.score_threshold,
        iou_threshold=chosen.iou_threshold,
        limit=chosen.limit,
        size_name=size_name,
        names=(boxes, scores, landmarks),
        threshold_names=(score_threshold, iou_threshold),
    )

    def probe(samples: Sequence[Tensors]) -> Tensors:
        given = [np.asarray(sample[image], np.uint8) for sample in samples]
        runner = Runner(pre, model.ir, post)
        for picture in given:
            found = np.asarray(runner.results({image: picture})[boxes])
            if len(found):
                return {image: pictures.shrink(_cut(picture, found[0]))}
        return {image: pictures.smallest(given)}

    return Stages(
        pre,
        post,
        (),
        interface(pre, model.signature, post),
        pictures.decoder(image),
        pictures.evaluator(image, model),
        probe,
    )


def _maps(model: Model, options: FaceOptions) -> list[TensorSpec]:
    """The model's four outputs, checked by their numbers of channels."""
    by_name = {spec.name: spec for spec in model.signature.outputs}
    names = list(options.outputs) or list(by_name)[: len(MAPS)]
    shown = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in by_name.values())
    remedy = f"The model has: {shown}. Name heat map, scale, offset, landmarks in this order."
    if len(names) != len(MAPS) or not set(names) <= set(by_name):
        raise UsageError("option 'outputs'", "it must name four outputs of the model", remedy)
    for (role, channels), name in zip(MAPS.items(), names, strict=True):
        shape = by_name[name].shape
        if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != channels):
            raise UsageError(
                f"output '{name}'",
                f"a {role} has the shape [1, {channels}, height, width], not {list(shape)}",
                remedy,
            )
    return [by_name[name] for name in names]


def _cut(picture: pictures.Pixels, box: Array) -> pictures.Pixels:
    """The part of the picture around a box (x1, y1, x2, y2 in pixels)."""
    x1, y1, x2, y2 = (float(side) for side in box)
    margin = MARGIN * max(x2 - x1, y2 - y1)
    top, left = (max(0, round(side - margin)) for side in (y1, x1))
    return np.ascontiguousarray(picture[top : round(y2 + margin), left : round(x2 + margin)])


TASK = Task(NAME, "Face detection", "boxes", build)
