"""Image classification: a picture to the five best classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx_ir as ir
from pydantic import Field

from builder.errors import UsageError
from builder.model import Model, Tensors, TensorSpec
from builder.prepost.classification import classification_post
from builder.prepost.draft import free_name
from builder.prepost.image import ImageInput, Placement, image_pre
from builder.tasks import labels, pictures
from builder.tasks.image_input import ImageOptions, image_input, model_size
from builder.tasks.run import interface
from builder.tasks.task import Stages, Task, choose, need_file, parse, taken_names

NAME = "image-classification"

DEFAULT_SIZE = 224
"""Side of the picture where the model leaves it open: what most ImageNet models are trained on."""

TRANSPARENT_TO_SCORES = {"Identity", "Reshape", "Flatten", "Squeeze", "Cast"}
"""Operators that may stand between a model's softmax and its output."""


class ClassificationOptions(ImageOptions):
    """Keys of `[models.options]`, beside those of `ImageOptions`.

    Attributes:
        output: Name of the output with the scores; by default the first.
        size: Height and width, or one number for both; by default the model's own, else 224.
        placement: `crop` the centre, or `stretch` the picture.
        crop: Side of the crop relative to the largest that fits: .875 is torchvision's 224 of 256.
        softmax: Whether to turn scores into probabilities; by default unless the model ends in
            a Softmax or Sigmoid.
        top: How many classes are given.
        labels: Name of the file with the labels, under `[models.files]`.
        label_names: Name of a file with a table from label to the name to show.
    """

    output: str | None = None
    size: int | tuple[int, int] | None = None
    placement: Literal["crop", "stretch"] = "crop"
    crop: float = Field(default=0.875, gt=0, le=1)
    softmax: bool | None = None
    top: int = Field(default=5, ge=1)
    labels: str | None = None
    label_names: str | None = None


def build(model: Model, options: Mapping[str, Any], files: Mapping[str, Path]) -> Stages:
    """Put decoding of pictures and ranking of scores around a classifier.

    Raises:
        UsageError: Options that are unknown, wrong, or don't fit the model; labels that don't.
    """
    chosen = parse(ClassificationOptions, options, NAME)
    target = image_input(model, chosen)
    output = choose(model.signature.outputs, chosen.output, "score output", None)
    taken = taken_names(model)
    image = free_name("image", taken, "raw_")
    pre = image_pre(
        target,
        Placement(chosen.placement, size=_size(model, target, chosen), ratio=chosen.crop),
        name=image,
    )
    softmax = not _gives_probabilities(model, output) if chosen.softmax is None else chosen.softmax
    post = classification_post(
        output,
        softmax=softmax,
        k=chosen.top,
        scores_name=free_name("scores", taken, "top_"),
        classes_name=free_name("classes", taken, "top_"),
    )

    def probe(samples: Sequence[Tensors]) -> Tensors:
        return {image: pictures.smallest([np.asarray(s[image], np.uint8) for s in samples])}

    return Stages(
        pre,
        post,
        _labels(output, chosen, files),
        interface(pre, model.signature, post),
        pictures.decoder(image),
        pictures.evaluator(image, model),
        probe,
    )


def _size(model: Model, target: ImageInput, options: ClassificationOptions) -> tuple[int, int]:
    """Height and width to feed: asked for, or the model's own, or the usual ones."""
    own = model_size(target)
    if options.size is not None:
        asked = options.size if isinstance(options.size, tuple) else (options.size, options.size)
        if any(isinstance(o, int) and o != a for o, a in zip(own, asked, strict=True)):
            raise UsageError(
                "option 'size'",
                f"it is {asked[0]} x {asked[1]}, and the model takes {own[0]} x {own[1]}",
                "Leave it out, or correct the model's shape with `shapes`.",
            )
        return asked
    height, width = (side if isinstance(side, int) else DEFAULT_SIZE for side in own)
    if (height, width) != own:
        model.event(
            "info", NAME, f"the model leaves the picture's size open: {height} x {width} is used"
        )
    return height, width


def _gives_probabilities(model: Model, output: TensorSpec) -> bool:
    """Whether the output comes out of a Softmax or Sigmoid."""
    value: ir.Value | None = next(v for v in model.ir.graph.outputs if v.name == output.name)
    while value is not None:
        node = value.producer()
        if node is None:
            return False
        if node.op_type in {"Softmax", "Sigmoid"}:
            return True
        if node.op_type not in TRANSPARENT_TO_SCORES:
            return False
        value = node.inputs[0]
    return False


def _labels(
    output: TensorSpec, options: ClassificationOptions, files: Mapping[str, Path]
) -> tuple[str, ...]:
    """Labels, if the recipe has any; as many as the model has classes."""
    if options.labels is None and "labels" not in files:
        return ()
    path = need_file(files, options.labels or "labels", "the option 'labels' names it")
    table = options.label_names and need_file(
        files, options.label_names, "the option 'label_names' names it"
    )
    result = labels.read(path, table or None)
    sizes = [axis for axis in output.shape[1:] if axis != 1]
    if len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] != len(result):
        raise UsageError(
            path.name,
            f"it has {len(result)} labels and the model has {sizes[0]} classes",
            "Give one label for every class, in the model's order.",
        )
    return result


TASK = Task(NAME, "Image classification", "top1", build)
