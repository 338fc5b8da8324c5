"""Options of face detection are held against the model's maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.errors import UsageError
from builder.model import Model, Provenance, Signature, names
from builder.prepost import Draft
from builder.tasks import TASKS, Runner, Stages

TASK = TASKS["face-detection"]


def _model(channels: tuple[int, ...] = (1, 2, 2, 10)) -> Model:
    """Maps that a picture's brightness fills, at a quarter of its size."""
    g = Draft("model")
    x = g.input("x", "float32", ["batch", 3, "height", "width"])
    small = g.add("AveragePool", x, kernel_shape=[4, 4], strides=[4, 4])
    grey = g.add("ReduceMean", small, np.array([1]))
    heat = g.add("Div", grey, np.float32(255))
    for number, count in enumerate(channels):
        maps = g.add("Tile", heat, np.array([1, count, 1, 1]))
        g.output(maps, f"map{number}", "float32", ["batch", count, "rows", "columns"])
    graph = g.model()
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def _build(model: Model, **options: Any) -> Stages:
    return TASK.build(model, options, {})


def test_the_interface_has_thresholds_with_defaults() -> None:
    stages = _build(_model(), score_threshold=0.4)
    assert names(stages.interface.inputs) == ["image", "score_threshold", "iou_threshold"]
    assert [spec.default for spec in stages.interface.inputs] == [None, (0.4,), (0.3,)]
    assert names(stages.interface.outputs) == ["boxes", "scores", "landmarks"]


def test_a_bright_spot_is_found_and_cut_out_for_the_probe() -> None:
    model = _model()
    stages = _build(model)
    picture = np.full((320, 320, 4), [0, 0, 0, 255], np.uint8)
    picture[200:204, 100:104] = 255
    got = Runner(stages.pre, model.ir, stages.post).results({"image": picture})
    # One cell of heat 1: offset 1 and half a cell to its middle, e cells wide.
    middle = np.array([[(25 + 1.5) * 4, (50 + 1.5) * 4]])
    half = np.exp(1.0) * 2
    wanted = np.concatenate([middle - half, middle + half], axis=1)
    np.testing.assert_allclose(np.asarray(got["boxes"], np.float64), wanted, atol=1e-3)
    dark = np.full((64, 64, 4), [0, 0, 0, 255], np.uint8)
    probe = np.asarray(stages.probe([{"image": dark}, {"image": picture}])["image"], np.uint8)
    assert max(probe.shape) < 30
    assert probe[..., 0].max() == 255


def test_without_a_face_the_probe_is_the_picture() -> None:
    dark = np.full((192, 96, 4), [0, 0, 0, 255], np.uint8)
    assert _build(_model()).probe([{"image": dark}])["image"].shape == (96, 48, 4)


@pytest.mark.parametrize(
    ("channels", "options", "why"),
    [
        ((1, 2, 2), {}, "four outputs"),
        ((1, 2, 2, 4), {}, "landmarks has the shape"),
        ((1, 2, 2, 10), {"outputs": ["map1", "map0", "map2", "map3"]}, "heat map has the shape"),
        ((1, 2, 2, 10), {"outputs": ["a", "b", "c", "d"]}, "four outputs"),
        ((1, 2, 2, 10), {"long_side": 100}, "multiple of 32"),
        ((1, 2, 2, 10), {"score_threshold": 2}, "score_threshold"),
        ((1, 2, 2, 10), {"threshold": 0.5}, "Known keys"),
    ],
)
def test_what_does_not_fit_is_refused(
    channels: tuple[int, ...], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        _build(_model(channels), **options)
