"""A classifier of one's own works by options alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from PIL import Image

from builder.errors import UsageError
from builder.model import Array, Model, Provenance, Signature, names
from builder.prepost import Draft
from builder.tasks import TASKS, Runner, Stages

TASK = TASKS["image-classification"]


def _brightness(
    name: str = "x", output: str = "y", *, softmax: bool = False, size: int | str = 4
) -> Model:
    """Means of the three channels as scores: the colour that a picture has most of."""
    g = Draft("model")
    x = g.input(name, "float32", ["batch", 3, size, size])
    scores = g.add("ReduceMean", x, np.array([2, 3]), keepdims=0)
    if softmax:
        scores = g.add("Softmax", scores, axis=1)
    g.output(scores, output, "float32", ["batch", 3])
    graph = g.model()
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def _build(model: Model, files: dict[str, Path] | None = None, **options: Any) -> Stages:
    return TASK.build(model, options, files or {})


def _blue() -> Array:
    return np.full((6, 9, 4), [0, 51, 255, 255], np.uint8)


def _softmax(values: list[float]) -> list[float]:
    powers = np.exp(values)
    return [float(power) for power in powers / powers.sum()]


def test_defaults_rank_the_classes() -> None:
    model = _brightness()
    stages = _build(model, range="0-1")
    got = Runner(stages.pre, model.ir, stages.post).results({"image": _blue()})
    assert got["classes"].tolist() == [2, 1, 0]
    wanted = _softmax([0.0, 0.2, 1.0])
    assert got["scores"].tolist() == pytest.approx(wanted[::-1], abs=1e-6)
    assert names(stages.interface.inputs) == ["image"]
    assert names(stages.interface.outputs) == ["scores", "classes"]
    for graph in (stages.pre, stages.post):
        assert graph is not None
        onnx.checker.check_model(ir.to_proto(graph), full_check=True)


def test_a_softmax_in_the_model_is_not_repeated() -> None:
    model = _brightness(softmax=True)
    stages = _build(model, range="0-1", top=1)
    got = Runner(stages.pre, model.ir, stages.post).results({"image": _blue()})
    assert got["scores"].tolist() == pytest.approx([_softmax([0.0, 0.2, 1.0])[2]], abs=1e-6)


def test_softmax_can_be_switched_off() -> None:
    model = _brightness()
    stages = _build(model, range="0-255", softmax=False)
    got = Runner(stages.pre, model.ir, stages.post).results({"image": _blue()})
    assert got["scores"].tolist() == [255, 51, 0]


def test_names_that_the_model_has_taken_are_avoided() -> None:
    model = _brightness("image", "scores")
    stages = _build(model)
    got = Runner(stages.pre, model.ir, stages.post).results({"raw_image": _blue()})
    assert list(got) == ["top_scores", "classes"]
    assert names(stages.interface.inputs) == ["raw_image"]
    assert list(stages.probe([])) == ["raw_image"]


def test_a_model_that_leaves_the_size_open_gets_the_usual_one_and_says_so() -> None:
    model = _brightness(size="side")
    stages = _build(model)
    got = Runner(stages.pre, model.ir, stages.post).run({"image": _blue()})
    assert got["pre"]["x"].shape == (1, 3, 224, 224)
    assert "224 x 224" in model.events[0].message
    asked = _build(model, size=[32, 48])
    shape = Runner(asked.pre, model.ir, asked.post).run({"image": _blue()})["pre"]["x"].shape
    assert shape == (1, 3, 32, 48)


def test_labels_are_read_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("red\ngreen\nblue\n")
    assert _build(_brightness(), {"labels": path}).labels == ("red", "green", "blue")
    assert _build(_brightness(), {"colours": path}, labels="colours").labels[2] == "blue"
    assert _build(_brightness()).labels == ()
    path.write_text("red\ngreen\n")
    with pytest.raises(UsageError, match="2 labels and the model has 3 classes"):
        _build(_brightness(), {"labels": path})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sise": 224}, "Known keys: .*size"),
        ({"size": 5}, "5 x 5, and the model takes 4 x 4"),
        ({"crop": 0}, "greater than 0"),
        ({"resize": "lanczos"}, "resize"),
        ({"output": "z"}, "score output 'z'"),
        ({"labels": "missing"}, "file 'missing'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _build(_brightness(), **options)


def test_samples_become_inputs_for_the_gate_and_a_small_probe(tmp_path: Path) -> None:
    Image.new("RGB", (300, 200), (0, 51, 255)).save(tmp_path / "blue.png")
    model = _brightness()
    stages = _build(model)
    decoded = [stages.decode(tmp_path / "blue.png")]
    assert decoded[0]["image"].shape == (200, 300, 4)
    assert len(stages.evaluation(decoded, 20)) == 32
    assert stages.probe(decoded)["image"].shape == (64, 96, 4)
    assert model.events == []


def test_measuring_without_samples_is_said() -> None:
    model = _brightness()
    assert len(_build(model).evaluation([], 20)) == 32
    assert [event.level for event in model.events] == ["warning"]
