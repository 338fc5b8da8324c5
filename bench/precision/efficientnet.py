"""EfficientNet-Lite0: pictures to the 1000 classes of ImageNet, judged by the best class.

The graph maps `input`, RGB f32[batch,3,224,224] as (value - 127) / 128, to scores f32[batch,1000].
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from bench.precision.case import Case, Run, Tensors, exported
from builder import zoo
from builder.fetch import fetch
from builder.model import Array
from builder.recipe import Pinned
from builder.references import SEED
from builder.tasks.pictures import Pixels, crops, read

PHOTOGRAPHS = {
    "astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    "motorcycle_left.png": "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179",
    "moon.png": "78739619d11f7eb9c165bb5d2efd4772cee557812ec847532dbb1d92ef71f577",
}
"""Of scikit-image, besides the recipe's samples; name to SHA-256."""

CROPS = 200
"""Random ones of all photographs, to judge on."""


def case() -> Case:
    """Crops of the recipe's samples to calibrate on, as a build does; others to judge on."""
    recipe = zoo.recipe("efficientnet-lite0")
    weights = fetch(recipe.files["weights"])
    model = exported("efficientnet-lite0-fp32.onnx", recipe.source, {"weights": weights})
    samples = [read(fetch(sample.file)) for sample in recipe.samples]
    package = "pypi:scikit-image==0.26.0#skimage/data/"
    others = [
        read(fetch(Pinned(ref=package + name, sha256=digest)))
        for name, digest in PHOTOGRAPHS.items()
    ]
    calibration = [tensor(picture) for picture in crops(samples, SEED)]
    held_back = [tensor(picture) for picture in random_crops([*samples, *others])]

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        same = [best(fp32(inputs)) == best(variant(inputs)) for inputs in held_back]
        return {"top1": float(np.mean(same))}

    return Case("efficientnet-lite0", model, calibration, held_back, score)


def random_crops(pictures: list[Pixels]) -> list[Pixels]:
    """Parts of 50 to 100 % of each side, none of which a build sees."""
    rng = np.random.default_rng(1)
    made = []
    for index in range(CROPS):
        picture = pictures[index % len(pictures)]
        sides = [round(side * rng.uniform(0.5, 1)) for side in picture.shape[:2]]
        top, left = (
            int(rng.integers(0, whole - side + 1))
            for whole, side in zip(picture.shape[:2], sides, strict=True)
        )
        made.append(picture[top : top + sides[0], left : left + sides[1]])
    return made


def tensor(picture: Pixels) -> Tensors:
    """The square in the middle, 224 pixels wide, as the model wants it."""
    side = min(picture.shape[:2])
    top, left = ((whole - side) // 2 for whole in picture.shape[:2])
    square = Image.fromarray(picture[top : top + side, left : left + side]).convert("RGB")
    values = np.asarray(square.resize((224, 224), Image.Resampling.BICUBIC), np.float32)
    return {"input": np.ascontiguousarray(((values - 127) / 128).transpose(2, 0, 1)[None])}


def best(outputs: dict[str, Array]) -> int:
    """The class with the highest score."""
    (scores,) = outputs.values()
    return int(np.argmax(scores))
