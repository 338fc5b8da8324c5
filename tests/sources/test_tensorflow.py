"""Models of TensorFlow, Keras and TensorFlow Lite give after their import what they gave before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from builder import sources
from builder.errors import NotAModelError, OnnxsiteError, UsageError
from builder.model import Model, Provenance, names
from builder.recipe import ModelRecipe
from builder.session import Session
from builder.sources import ends, onnx_file
from tests.sources.tensorflow_names import KERAS, LITE, PITCHES, REFUSED, SAVED


def loaded(folder: Path) -> Model:
    """What the import in the cases' process made, with the rest of the way."""
    proto = onnx.load(folder / "model.onnx")
    return onnx_file.from_proto(proto, Provenance("test"), shapes={})


def data(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs that the import hasn't seen, and what the framework says of them."""
    with np.load(folder / "data.npz") as found:
        sides: list[dict[str, Any]] = [
            {key.split(" ")[1]: found[key] for key in found if key.startswith(f"{side} ")}
            for side in ("in", "out")
        ]
    return sides[0], sides[1]


def agree(folder: Path, *, atol: float = 1e-4) -> Model:
    model = loaded(folder)
    feeds, expected = data(folder)
    said: dict[str, Any] = dict(Session(model.ir).run(feeds))
    assert set(said) == set(expected)
    assert {spec.name for spec in model.signature.inputs} == set(feeds)
    for name, array in expected.items():
        assert said[name].dtype == array.dtype
        np.testing.assert_allclose(said[name], array, atol=atol, rtol=1e-3)
    return model


@pytest.mark.parametrize("name", KERAS)
def test_keras(tensorflow_cases: Path, name: str) -> None:
    model = agree(tensorflow_cases / "keras" / name)
    ends_ = (*model.signature.inputs, *model.signature.outputs)
    assert all(spec.shape[0] == "batch" for spec in ends_)


def test_free_axes_have_names(tensorflow_cases: Path) -> None:
    model = loaded(tensorflow_cases / "keras" / "pictures of any size")
    assert model.signature.inputs[0].shape == ("batch", "height", "width", 3)
    assert model.signature.outputs[0].shape[3] == 2
    model = loaded(tensorflow_cases / "keras" / "embedding, LSTM, GRU")
    (ids,) = model.signature.inputs
    assert (ids.dtype, ids.shape) == ("int32", ("batch", "length"))


@pytest.mark.parametrize("name", SAVED)
def test_saved_models(tensorflow_cases: Path, name: str) -> None:
    agree(tensorflow_cases / "saved" / name)


def test_a_signature_is_kept(tensorflow_cases: Path) -> None:
    model = loaded(tensorflow_cases / "saved" / "named signature")
    shapes = {s.name: s.shape for s in (*model.signature.inputs, *model.signature.outputs)}
    assert set(shapes) == {"signal", "which", "energy", "chosen"}
    assert shapes["signal"] == ("batch", 6)


@pytest.mark.parametrize("name", LITE)
def test_tensorflow_lite(tensorflow_cases: Path, name: str) -> None:
    """In 8 bits it is near what the model was before it was rounded."""
    folder = tensorflow_cases / "lite" / name
    agree(folder, atol=1e-4 if name == "convolutions" else 0.3)
    events = json.loads((folder / "events.json").read_text(encoding="utf-8"))
    assert any("to 5 %" in message for _, message in events) == (name != "convolutions")


def load(path: Path, work: Path, *, trust: bool = False) -> Model:
    work.mkdir()
    recipe = ModelRecipe(source=path.name, trust=trust)
    return sources.load(recipe, base=path.parent, files={}, work=work)


UNREAD: Mapping[str, tuple[type[OnnxsiteError], str]] = {
    "cut.h5": (NotAModelError, "it's no whole model of Keras"),
    "lambda.h5": (UsageError, "its Lambda is code in the file.*--trust"),
    "lambda.keras": (UsageError, "its Lambda is code in the file.*--trust"),
    "only.weights.h5": (NotAModelError, "it's no whole model of Keras"),
}
"""What is refused before TensorFlow sees it."""


@pytest.mark.parametrize(("file", "error"), UNREAD.items(), ids=UNREAD)
def test_refused_unread(
    tensorflow_cases: Path, tmp_path: Path, file: str, error: tuple[type[OnnxsiteError], str]
) -> None:
    kind, message = error
    with pytest.raises(kind, match=f"^{file}: {message}"):
        load(tensorflow_cases / "refused" / file, tmp_path / "work")


def test_code_runs_if_it_is_trusted(tensorflow_cases: Path, tmp_path: Path) -> None:
    path = tensorflow_cases / "refused" / "lambda.keras"
    model = load(path, tmp_path / "work", trust=True)
    feeds = {model.signature.inputs[0].name: np.ones((2, 4), np.float32)}
    (output,) = Session(model.ir).run(feeds).values()
    np.testing.assert_array_equal(output, np.full((2, 4), 2, np.float32))
    assert any("does on 8 inputs" in event.message for event in model.events)


@pytest.mark.parametrize(("file", "message"), REFUSED.items(), ids=REFUSED)
def test_refusals(tensorflow_cases: Path, file: str, message: str) -> None:
    said = json.loads((tensorflow_cases / "refused" / "errors.json").read_text(encoding="utf-8"))
    assert message in said[file]


@pytest.mark.parametrize("name", PITCHES)
def test_one_model_in_three_formats(tensorflow_cases: Path, name: str) -> None:
    """Basic Pitch: its SavedModel and its TFLite file give what its ONNX file gives."""
    model = loaded(tensorflow_cases / "pitch" / name)
    (given,) = model.signature.inputs
    assert (given.name, given.shape) == ("input_2", ("batch", 43844, 1))
    assert set(names(model.signature.outputs)) == {"contour", "note", "onset"}
    sound = np.random.default_rng(0).normal(0, 0.1, (1, 43844, 1)).astype(np.float32)
    said = Session(model.ir).run({"input_2": sound}).values()
    origin = load(tensorflow_cases / "nmp.onnx", tensorflow_cases / f"work {name}")
    expected = Session(origin.ir).run({origin.signature.inputs[0].name: sound})
    for array in expected.values():
        alike = [other for other in said if other.shape == array.shape]
        assert any(np.allclose(array, other, atol=1e-4) for other in alike)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotAModelError, match="no such file"):
        load(tmp_path / "none.keras", tmp_path / "work")


def test_names_give_way() -> None:
    """An output that is an input, one that is there twice, and one that is called like a weight."""
    given = onnx.helper.make_tensor_value_info("x:0", onnx.TensorProto.FLOAT, [None])
    outputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None])
        for name in ("x:0", "sum:0", "sum:0")
    ]
    weight = onnx.numpy_helper.from_array(np.ones(1, np.float32), "total")
    node = onnx.helper.make_node("Add", ["x:0", "total"], ["sum:0"])
    graph = onnx.helper.make_graph([node], "g", [given], outputs, [weight])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    ends.rename(proto, ["x"], ["same", "total", "again"])
    onnx.checker.check_model(proto, full_check=True)
    said = Session(proto.SerializeToString()).run({"x": np.array([2.0], np.float32)})
    assert {name: float(array[0]) for name, array in said.items()} == {
        "same": 2.0,
        "total": 3.0,
        "again": 3.0,
    }
