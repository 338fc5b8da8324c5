"""What a model wants of a picture is read off its shape, and options override it."""

from __future__ import annotations

from typing import Any

import pytest

from builder.errors import UsageError
from builder.model import Model, Provenance, Signature, TensorSpec
from builder.prepost import Draft, ImageInput
from builder.tasks.image_input import ImageOptions, image_input, model_size


def _model(*shape: int | str, dtype: str = "float32") -> Model:
    g = Draft("model")
    g.input("vector", "float32", [4])
    x = g.input("x", dtype, shape)
    g.output(g.add("Identity", x), "y", dtype, shape)
    graph = g.model()
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def _settle(*shape: int | str, dtype: str = "float32", **options: Any) -> ImageInput:
    return image_input(_model(*shape, dtype=dtype), ImageOptions(**options))


@pytest.mark.parametrize(
    ("shape", "layout", "channels", "size"),
    [
        (("batch", 3, 224, 192), "nchw", "rgb", (224, 192)),
        ((1, 224, 192, 3), "nhwc", "rgb", (224, 192)),
        ((1, 1, 28, 28), "nchw", "grey", (28, 28)),
        (("n", "h", "w", 1), "nhwc", "grey", ("h", "w")),
    ],
)
def test_shape_tells_layout_and_channels(
    shape: tuple[int | str, ...], layout: str, channels: str, size: tuple[int | str, ...]
) -> None:
    target = _settle(*shape)
    assert (target.spec.name, target.layout, target.channels) == ("x", layout, channels)
    assert model_size(target) == size


def test_colour_in_floating_point_is_normalised_as_for_imagenet() -> None:
    target = _settle(1, 3, 8, 8)
    assert target.mean == pytest.approx((123.675, 116.28, 103.53))
    assert target.std == pytest.approx((58.395, 57.12, 57.375))
    blue_first = _settle(1, 3, 8, 8, channels="bgr")
    assert blue_first.mean == pytest.approx((103.53, 116.28, 123.675))


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [
        ({"mean": 0.5, "std": 0.5}, (127.5,) * 3, (127.5,) * 3),
        ({"range": "0-255", "mean": 127, "std": 128}, (127,) * 3, (128,) * 3),
        ({"range": "0-255", "mean": [1, 2, 3]}, (1, 2, 3), (1,) * 3),
        ({"range": "0-1"}, (0,) * 3, (255,) * 3),
        ({"std": 2}, (0,) * 3, (510,) * 3),
    ],
)
def test_options_are_on_the_scale_that_they_name(
    options: dict[str, Any], mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    target = _settle(1, 3, 8, 8, **options)
    assert (target.mean, target.std) == (mean, std)


def test_bytes_are_given_as_they_are() -> None:
    target = _settle(1, 8, 8, 3, dtype="uint8")
    assert (target.mean, target.std) == ((0,) * 3, (1,) * 3)


@pytest.mark.parametrize(
    ("shape", "options", "why"),
    [
        ((4, 3, 8, 8), {}, "first axis is 4"),
        ((1, 7, 8, 8), {}, "1 or 3 channels"),
        ((1, 3, 8, 8), {"channels": "grey"}, "3 channels and 'grey' has 1"),
        ((1, 3, 8, 8), {"mean": [1, 2]}, "2 numbers for 3 channels"),
        ((1, 3, 8, 8), {"std": 0}, "divided by 0"),
        ((1, 3, 8, 8), {"input": "nope"}, "'nope'"),
        ((1, 3, 8, 8), {"input": "vector"}, "four axes"),
        ((1, 3, 8), {}, "4-dimensional"),
    ],
)
def test_what_does_not_fit_is_refused(
    shape: tuple[int | str, ...], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        _settle(*shape, **options)


def test_the_spec_is_the_models_own() -> None:
    assert _settle(1, 3, 8, 8).spec == TensorSpec("x", "float32", (1, 3, 8, 8))
