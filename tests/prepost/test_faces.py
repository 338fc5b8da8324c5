"""Maps become the boxes and landmarks that a plain NumPy decoder finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest

from builder.model import Array, Tensors, TensorSpec
from builder.prepost import centerface_post, signature_of
from builder.session import Session

Floats = npt.NDArray[np.float32]

CHANNELS = {"heat": 1, "scale": 2, "offset": 2, "points": 10}


def _post(limit: int = 200) -> ir.Model:
    maps = [TensorSpec(name, "float32", (1, n, "r", "c")) for name, n in CHANNELS.items()]
    return centerface_post(maps, score_threshold=0.5, iou_threshold=0.3, limit=limit)


def _maps(rows: int, columns: int, seed: int) -> Tensors:
    """Random maps: a tenth of the cells are hot, boxes of 5 to 60 pixels."""
    rng = np.random.default_rng(seed)
    heat = rng.uniform(0, 0.45, (1, 1, rows, columns))
    hot = rng.uniform(0, 1, heat.shape) < 0.1
    heat[hot] = rng.permutation(np.linspace(0.55, 0.99, int(hot.sum())))
    drawn = {
        "heat": heat,
        "scale": rng.uniform(0.2, 2.7, (1, 2, rows, columns)),
        "offset": rng.uniform(-0.5, 0.5, (1, 2, rows, columns)),
        "points": rng.uniform(-0.1, 1.1, (1, 10, rows, columns)),
    }
    return {name: values.astype(np.float32) for name, values in drawn.items()}


def _overlap(a: Floats, b: Floats) -> float:
    width = max(0.0, float(min(a[2], b[2]) - max(a[0], b[0])))
    height = max(0.0, float(min(a[3], b[3]) - max(a[1], b[1])))
    areas = [float((box[2] - box[0]) * (box[3] - box[1])) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def _decode(
    maps: Tensors, size: tuple[int, int], score: float, iou: float
) -> tuple[list[Floats], list[float], list[Floats]]:
    """Face by face, in plain loops."""
    rows, columns = maps["heat"].shape[2:]
    ratio = np.array([size[1] / (4 * columns), size[0] / (4 * rows)])
    found = []
    for r, c in np.argwhere(maps["heat"][0, 0] > score):
        at = (0, slice(None), r, c)
        extent = np.exp(maps["scale"][at][::-1].astype(float)) * 4
        centre = (np.array([c, r]) + maps["offset"][at][::-1] + 0.5) * 4
        corner = centre - extent / 2
        points = (maps["points"][at].reshape(5, 2)[:, ::-1] * extent + corner) * ratio
        box = np.concatenate([corner * ratio, (corner + extent) * ratio])
        box = np.clip(box, 0, [size[1], size[0]] * 2)
        found.append((float(maps["heat"][0, 0, r, c]), box.astype(np.float32), points))
    found.sort(key=lambda face: -face[0])
    kept: list[tuple[float, Floats, Floats]] = []
    for face in found:
        if all(_overlap(face[1], other[1]) <= iou for other in kept):
            kept.append(face)
    return [f[1] for f in kept], [f[0] for f in kept], [f[2] for f in kept]


def _close(got: Array, wanted: Sequence[Any], atol: float) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted), atol=atol)


def _run(
    maps: Mapping[str, Array], size: tuple[int, int], score: float, iou: float, **post: int
) -> Tensors:
    limits = {"score_threshold": np.array(score, np.float32), "iou_threshold": np.array(iou, "f4")}
    return Session(_post(**post)).run({**maps, "image_size": np.array(size), **limits})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("score", "iou"), [(0.5, 0.3), (0.7, 0.05), (0.5, 0.9)])
def test_agrees_with_plain_loops(seed: int, score: float, iou: float) -> None:
    maps, size = _maps(24, 40, seed), (90, 171)
    got = _run(maps, size, score, iou)
    boxes, scores, points = _decode(maps, size, score, iou)
    assert len(boxes) > 5
    assert got["scores"].tolist() == pytest.approx(scores, rel=1e-6)
    _close(got["boxes"], boxes, atol=1e-3)
    _close(got["landmarks"], points, atol=1e-3)


def _nothing() -> dict[str, Floats]:
    return {name: np.zeros((1, n, 8, 8), np.float32) for name, n in CHANNELS.items()}


def test_one_face_by_hand() -> None:
    maps = _nothing()
    maps["heat"][0, 0, 2, 3] = 0.9
    maps["scale"][0, :, 2, 3] = np.log([2.0, 1.0])  # 8 pixels high, 4 wide
    maps["offset"][0, :, 2, 3] = [0.25, 0]  # the centre is a pixel lower
    maps["points"][0, :2, 2, 3] = [0.5, 0.25]  # half way down, a quarter across
    got = _run(maps, (64, 32), 0.5, 0.3)  # given twice as high as the model's 32 x 32
    # Centre (14, 11): x 12..16, y 7..15, the latter doubled.
    _close(got["boxes"], [[12, 14, 16, 30]], atol=1e-4)
    _close(got["landmarks"][0, 0], [13, 22], atol=1e-4)
    _close(got["landmarks"][0, 1], [12, 14], atol=1e-4)


def test_no_face_is_no_rows() -> None:
    maps = _nothing()
    got = _run(maps, (32, 32), 0.5, 0.3)
    assert {name: array.shape for name, array in got.items()} == {
        "boxes": (0, 4),
        "scores": (0,),
        "landmarks": (0, 5, 2),
    }


def test_the_limit_keeps_the_best() -> None:
    maps = _maps(24, 40, 1)
    every = _run(maps, (96, 160), 0.5, 0.3)["scores"]
    some = _run(maps, (96, 160), 0.5, 0.3, limit=3)["scores"]
    assert some.tolist() == every[:3].tolist() == sorted(every.tolist(), reverse=True)[:3]


def test_thresholds_carry_their_defaults() -> None:
    model = _post()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    defaults = {spec.name: spec.default for spec in signature_of(model).inputs}
    assert defaults["score_threshold"] == (0.5,)
    assert defaults["iou_threshold"] == (0.3,)
    assert defaults["heat"] is None
