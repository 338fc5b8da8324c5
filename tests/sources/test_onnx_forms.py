"""Archives and folders of ONNX models."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder import sources
from builder.errors import NotAModelError
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.session import Session

WEIGHTS = np.arange(8, dtype=np.float32).reshape(2, 4)


def save(path: Path, *, apart: bool = False) -> Path:
    """y = x @ WEIGHTS, the weights in a file of their own if `apart`."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, save_as_external_data=apart, location="w.bin", size_threshold=0)
    return path


def gz(folder: Path) -> Path:
    whole = save(folder / "it.onnx").read_bytes()
    (folder / "it.onnx.gz").write_bytes(gzip.compress(whole))
    return folder / "it.onnx.gz"


def archive(folder: Path) -> Path:
    save(folder / "parts" / "it.onnx", apart=True)
    with zipfile.ZipFile(folder / "it.zip", "w") as packed:
        for file in sorted((folder / "parts").iterdir()):
            packed.write(file, f"export/{file.name}")
    return folder / "it.zip"


def tarball(folder: Path) -> Path:
    save(folder / "parts" / "it.onnx", apart=True)
    with tarfile.open(folder / "it.tar.gz", "w:gz") as packed:
        packed.add(folder / "parts", "export")
    return folder / "it.tar.gz"


def hub(folder: Path) -> Path:
    save(folder / "hub" / "onnx" / "model.onnx")
    save(folder / "hub" / "onnx" / "model_quantized.onnx")
    return folder / "hub"


def single(folder: Path) -> Path:
    return save(folder / "one" / "deep" / "it.onnx", apart=True).parents[1]


FORMS: Mapping[str, Callable[[Path], Path]] = {
    "gzip": gz,
    "zip with weights apart": archive,
    "tar.gz with weights apart": tarball,
    "hub": hub,
    "folder": single,
}


def load(path: Path, work: Path, part: str | None = None) -> Model:
    work.mkdir()
    return sources.load(
        ModelRecipe(source=str(path), part=part), base=path.parent, files={}, work=work
    )


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_forms(make: Callable[[Path], Path], tmp_path: Path) -> None:
    model = load(make(tmp_path), tmp_path / "work")
    x = np.eye(2, dtype=np.float32)
    np.testing.assert_array_equal(Session(model.ir).run({"x": x})["y"], WEIGHTS)


def test_what_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.onnx.gz").write_bytes(gz(tmp_path).read_bytes()[:40])
    with pytest.raises(NotAModelError, match=r"cut\.onnx\.gz: it can't be unpacked"):
        load(tmp_path / "cut.onnx.gz", tmp_path / "first")
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04nothing")
    with pytest.raises(NotAModelError, match=r"no\.zip: it can't be unpacked"):
        load(tmp_path / "no.zip", tmp_path / "second")


def test_several_models_are_named(tmp_path: Path) -> None:
    for name in ("encoder", "decoder"):
        save(tmp_path / "parts" / f"{name}.onnx")
    with pytest.raises(NotAModelError, match=r"holds 2 models .decoder\.onnx, encoder\.onnx"):
        load(tmp_path / "parts", tmp_path / "work")
    assert load(tmp_path / "parts", tmp_path / "one", "encoder").provenance.name == "encoder.onnx"
