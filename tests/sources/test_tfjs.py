"""Models of TensorFlow.js give after their import what TensorFlow and TensorFlow.js say."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder import sources
from builder.errors import ExternalDataError, NotAModelError, OnnxsiteError
from builder.fetch import fetch
from builder.model import Model
from builder.recipe import ModelRecipe, Pinned
from builder.session import Session
from builder.sources.tfjs import files, graph, layers
from hatch_build import command
from tests.sources.tensorflow_names import GRAPHS

HERE = Path(__file__).parent

LAYERS = (
    "perceptron",
    "convolutions",
    "branches",
    "two inputs, a layer shared",
    "embedding, LSTM",
    "GRU, backwards",
    "both directions",
    "nested",
    "sequences",
)
"""Of `tfjs_layers.cjs`."""

TFJS = Pinned(
    ref="npm:@tensorflow/tfjs@4.22.0#dist/tf.min.js",
    sha256="300dfae273d20b4046f46a06d735688f03675a807561e9bcb5f664eb2f3d2831",
)


def near(got: Any, expected: Any, *, atol: float = 1e-4) -> None:
    np.testing.assert_allclose(got, expected, atol=atol, rtol=1e-3)


@pytest.fixture(scope="module")
def layers_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models that TensorFlow.js made, and what it predicts."""
    folder = tmp_path_factory.mktemp("layers")
    script = [*command("node"), str(HERE / "tfjs_layers.cjs"), str(fetch(TFJS)), str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", LAYERS)
def test_layers(layers_models: Path, name: str) -> None:
    folder = layers_models / name
    content = files.read(folder / "model.json", {})
    assert not content.is_graph
    proto = layers.convert(content, "test")
    said = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    feeds = {
        end.name: np.array(one["data"], np.float32).reshape(one["shape"])
        for end, one in zip(proto.graph.input, said["inputs"], strict=True)
    }
    for end, one in zip(proto.graph.input, said["inputs"], strict=True):
        dims = end.type.tensor_type.shape.dim
        assert dims[0].dim_param == "batch"
        assert len(dims) == len(one["shape"])
    results = Session(proto.SerializeToString()).run(feeds)
    for array, one in zip(results.values(), said["outputs"], strict=True):
        expected = np.array(one["data"], np.float32).reshape(one["shape"])
        near(array, expected)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(tensorflow_cases: Path, name: str) -> None:
    folder = tensorflow_cases / "graphs" / name
    proto = graph.convert(files.read(folder / "model.json", {}), "test")
    with np.load(folder / "data.npz") as data:
        x, expected = data["in x"], data["out"]
    said = Session(proto.SerializeToString()).run({"x": x})["result"]
    assert said.dtype == expected.dtype
    near(said, expected)


def load(path: Path, work: Path) -> Model:
    work.mkdir()
    return sources.load(ModelRecipe(source=path.name), base=path.parent, files={}, work=work)


SEEN = {"astronaut": 0, "coffee": 41}
"""What is in a photograph: places of person and cup among COCO's 80 classes."""


def test_a_real_detector(tensorflow_cases: Path, tmp_path: Path) -> None:
    """CenterNet sees what TensorFlow makes of the same graph, and that is right."""
    model = load(tensorflow_cases / "centernet.json", tmp_path / "work")
    assert any("does on 2 inputs" in event.message for event in model.events)
    assert model.signature.inputs[0].shape == (1, 512, 512, 3)
    kinds = [node.op_type for node in model.ir.graph]
    assert kinds.count("Transpose") <= 5  # at the ends alone
    session = Session(model.ir)
    for name, thing in SEEN.items():
        with np.load(tensorflow_cases / f"{name}.npz") as data:
            feeds = {key[3:]: data[key] for key in data if key.startswith("in ")}
            expected = {key[4:]: data[key] for key in data if key.startswith("out ")}
        said: dict[str, Any] = dict(session.run(feeds))
        assert set(said) == set(expected)
        for key, array in expected.items():
            near(said[key], array, atol=1e-4 * np.abs(array).max())
        assert said["tower_0/detections"][0, 0, 5] == thing


SMALL = {
    "format": "graph-model",
    "modelTopology": {
        "node": [
            {
                "name": "x",
                "op": "Placeholder",
                "attr": {
                    "dtype": {"type": "DT_FLOAT"},
                    "shape": {"shape": {"dim": [{"size": "-1"}, {"size": "2"}]}},
                },
            },
            {"name": "w", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}},
            {"name": "y", "op": "Mul", "input": ["x", "w"]},
        ]
    },
    "weightsManifest": [
        {"paths": ["w.bin"], "weights": [{"name": "w", "shape": [2], "dtype": "float32"}]}
    ],
}


def small(folder: Path, change: Callable[[Any], object] = lambda _model: None) -> Path:
    """A model of one operator, changed."""
    model = json.loads(json.dumps(SMALL))
    change(model)
    (folder / "w.bin").write_bytes(np.array([2, 3], "<f4").tobytes())
    (folder / "model.json").write_text(json.dumps(model), encoding="utf-8")
    return folder / "model.json"


def converted(path: Path) -> Any:
    return graph.convert(files.read(path, {}), "test")


def test_names_without_a_signature(tmp_path: Path) -> None:
    proto = converted(small(tmp_path))
    said = Session(proto.SerializeToString()).run({"x": np.ones((4, 2), np.float32)})
    np.testing.assert_array_equal(said["y"], np.tile(np.array([2, 3], np.float32), (4, 1)))
    dims = proto.graph.output[0].type.tensor_type.shape.dim
    assert [dims[0].dim_param, dims[1].dim_value] == ["batch", 2]


PACKED: Mapping[str, tuple[dict[str, Any], str, list[float]]] = {
    "16 bits": ({"dtype": "float16", "original_dtype": "float32"}, "<f2", [2.0, 3.0]),
    "bytes": ({"dtype": "uint8", "scale": 0.5, "min": -1.0}, "u1", [6, 8]),
    "words": ({"dtype": "uint16", "scale": 0.01, "min": 0.0}, "<u2", [200, 300]),
}


@pytest.mark.parametrize(("packed", "dtype", "stored"), PACKED.values(), ids=PACKED)
def test_packed_weights(
    tmp_path: Path, packed: dict[str, Any], dtype: str, stored: list[float]
) -> None:
    path = small(
        tmp_path, lambda m: m["weightsManifest"][0]["weights"][0].update(quantization=packed)
    )
    (tmp_path / "w.bin").write_bytes(np.array(stored, dtype).tobytes())
    found = files.read(path, {}).weights["w"]
    assert found.dtype == np.float32
    near(found, [2, 3])


def _unknown(model: Any) -> None:
    model["modelTopology"]["node"][2]["op"] = "Frobnicate"
    more = {"name": "z", "op": "Whatever", "input": ["y"]}
    model["modelTopology"]["node"].append(more)


def _loop(model: Any) -> None:
    model["modelTopology"]["node"][1].update(op="Neg", input=["y"])
    model["modelTopology"]["node"].append({"name": "z", "op": "Neg", "input": ["y"]})


BROKEN: Mapping[str, tuple[Callable[[Any], object], type[OnnxsiteError], str]] = {
    "unknown operators": (_unknown, OnnxsiteError, "operators Frobnicate, Whatever"),
    "no shard": (
        lambda m: m["weightsManifest"][0].update(paths=["v.bin"]),
        ExternalDataError,
        "shard 'v.bin': it is missing",
    ),
    "a shard elsewhere": (
        lambda m: m["weightsManifest"][0].update(paths=["../w.bin"]),
        ExternalDataError,
        "isn't in the model's folder",
    ),
    "short": (
        lambda m: m["weightsManifest"][0]["weights"][0].update(shape=[3]),
        ExternalDataError,
        "8 bytes, 12 are needed",
    ),
    "complex numbers": (
        lambda m: m["weightsManifest"][0]["weights"][0].update(dtype="complex64"),
        OnnxsiteError,
        "its element type is complex64",
    ),
    "no weight": (
        lambda m: m["weightsManifest"][0].update(weights=[]),
        ExternalDataError,
        "weight 'w': no shard holds it",
    ),
    "nobody there": (
        lambda m: m["modelTopology"]["node"].pop(0),
        NotAModelError,
        "it reads 'x', which isn't there",
    ),
    "a loop": (
        _loop,
        OnnxsiteError,
        "loops can't be imported",
    ),
    "no topology": (lambda m: m.pop("modelTopology"), NotAModelError, "no whole model"),
    "no nodes": (lambda m: m["modelTopology"].update(node=[{}]), NotAModelError, "isn't a node"),
    "strings": (
        lambda m: m["modelTopology"]["node"][0]["attr"].update(dtype={"type": "DT_STRING"}),
        OnnxsiteError,
        "its type string can't be imported",
    ),
}


@pytest.mark.parametrize(("change", "kind", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_graphs(
    tmp_path: Path, change: Callable[[Any], object], kind: type[OnnxsiteError], message: str
) -> None:
    path = small(tmp_path, change)
    with pytest.raises(kind, match=message) as caught:
        load(path, tmp_path / "work")
    assert str(caught.value).startswith("model.json, ")


def test_unknown_layers(layers_models: Path, tmp_path: Path) -> None:
    model = json.loads((layers_models / "perceptron" / "model.json").read_text(encoding="utf-8"))
    for layer in model["modelTopology"]["config"]["layers"][:2]:
        layer["class_name"] = f"My{layer['class_name']}"
    (tmp_path / "model.json").write_text(json.dumps(model), encoding="utf-8")
    shutil.copy(layers_models / "perceptron" / "weights.bin", tmp_path)
    with pytest.raises(OnnxsiteError, match="nothing is known of the layers MyDense, MyDropout"):
        load(tmp_path / "model.json", tmp_path / "work")


def test_a_folder(layers_models: Path, tmp_path: Path) -> None:
    model = load(layers_models / "perceptron", tmp_path / "work")
    assert model.provenance.name == "perceptron"
    assert model.signature.inputs[0].shape == ("batch", 4)


def test_truncated_json(tmp_path: Path) -> None:
    path = small(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(NotAModelError, match=r"no whole model of TensorFlow\.js"):
        load(path, tmp_path / "work")
