"""A model of no known task is run on random inputs or on the arrays of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.errors import UsageError
from builder.model import Model, Provenance, Signature
from builder.prepost import Draft
from builder.tasks import TASKS, Stages, Task


def _model(inputs: int = 2) -> Model:
    g = Draft("model")
    ids = g.input("ids", "int64", ["batch", "tokens"])
    values = g.add("Cast", ids, to=1)
    if inputs == 2:
        values = g.add("Add", values, g.input("x", "float32", ["batch", "tokens"]))
    g.output(values, "y", "float32", ["batch", "tokens"])
    graph = g.model()
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def _build(model: Model, **options: Any) -> Stages:
    return TASKS["tensors"].build(model, options, {})


def test_the_interface_is_the_signature() -> None:
    model = _model()
    stages = _build(model)
    assert (stages.pre, stages.post, stages.labels) == (None, None, ())
    assert stages.interface == model.signature


def test_random_inputs_have_the_asked_extents_and_ranges_and_repeat() -> None:
    options = {"dims": {"tokens": 7}, "ranges": {"ids": [90, 95], "x": [2, 3]}}
    first, second = (_build(_model(), **options).evaluation([], 3) for _ in range(2))
    assert len(first) == 16
    for one, same in zip(first, second, strict=True):
        assert all(np.array_equal(one[name], same[name]) for name in ("ids", "x"))
        assert one["ids"].shape == one["x"].shape == (1, 7)
        assert one["ids"].dtype == np.int64
        assert set(one["ids"].ravel().tolist()) <= set(range(90, 96))
        assert ((one["x"] >= np.float32(2)) & (one["x"] <= np.float32(3))).all()
    assert not np.array_equal(first[0]["x"], first[1]["x"])


def test_samples_come_first_and_the_first_is_the_probe(tmp_path: Path) -> None:
    arrays = {"ids": np.array([[1, 2]]), "x": np.ones((1, 2), np.float32)}
    np.savez(tmp_path / "a.npz", ids=arrays["ids"], x=arrays["x"])
    stages = _build(_model())
    decoded = [stages.decode(tmp_path / "a.npz")]
    assert all(np.array_equal(decoded[0][name], array) for name, array in arrays.items())
    assert stages.evaluation(decoded, 0)[0] is decoded[0]
    assert np.array_equal(stages.probe(decoded)["ids"], arrays["ids"])
    assert stages.probe([])["ids"].shape[0] == 1


def test_a_single_array_will_do_for_a_single_input(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([[1, 2, 3]]))
    assert _build(_model(1)).decode(tmp_path / "ids.npy")["ids"].tolist() == [[1, 2, 3]]
    with pytest.raises(UsageError, match="no array for input 'ids'"):
        _build(_model(2)).decode(tmp_path / "ids.npy")


@pytest.mark.parametrize(
    "array", [np.zeros((1, 2), np.float32), np.zeros(3, np.int64), np.array([[None]], object)]
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(UsageError, match=r"a\.npy"):
        _build(_model(1)).decode(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dims": {"token": 3}}, "token.*It has: batch, tokens"),
        ({"dims": {"tokens": 0}}, "can't be 0"),
        ({"ranges": {"z": [0, 1]}}, "called z"),
        ({"ranges": {"x": [1, 0]}}, "1.0 is above 0.0"),
        ({"size": 3}, "Known keys: dims, ranges"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _build(_model(), **options)


def test_the_table_knows_its_tasks() -> None:
    assert list(TASKS) == ["image-classification", "face-detection", "file-type", "tensors"]
    assert all(isinstance(task, Task) and task.name == name for name, task in TASKS.items())
