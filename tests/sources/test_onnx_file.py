"""ONNX files come in whole, or are refused with what, why and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.errors import (
    ExternalDataError,
    NotAModelError,
    OnnxsiteError,
    UnsupportedError,
    UsageError,
)
from builder.session import Session
from builder.sources import onnx_file
from tests.close import assert_close
from tests.node_cases import protos


def graph(
    nodes: list[onnx.NodeProto],
    *,
    dtype: int = TensorProto.FLOAT,
    shape: list[int | str] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """A graph from x to y of one type and shape."""
    ends = [
        helper.make_tensor_value_info(name, dtype, ["n", 4] if shape is None else shape)
        for name in ("x", "y")
    ]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    made = helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    return helper.make_model(made, opset_imports=opsets, ir_version=ir_version)


def relu(**kwargs: object) -> onnx.ModelProto:
    return graph([helper.make_node("Relu", ["x"], ["y"], name="act")], **kwargs)  # type: ignore[arg-type]


def zip_map() -> onnx.ModelProto:
    model = graph(
        [helper.make_node("ZipMap", ["x"], ["y"], "zip", domain="ai.onnx.ml")],
        domains=("ai.onnx.ml",),
    )
    kind = model.graph.output[0].type
    kind.Clear()
    kind.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    kind.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def large(folder: Path) -> Path:
    """A model whose one weight (4 kB) lies in a file beside it."""
    weight = numpy_helper.from_array(np.arange(1024, dtype=np.float32).reshape(4, 256), "w")
    model = graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")])
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 256
    model.graph.initializer.append(weight)
    path = folder / "large.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


WHOLE = relu().SerializeToString()

BYTES: list[tuple[str, bytes, type[OnnxsiteError], str]] = [
    ("empty", b"", NotAModelError, "empty"),
    ("html", b"<!doctype html><title>Not found</title>", NotAModelError, "HTML"),
    ("png", b"\x89PNG\r\n\x1a\n" + bytes(64), NotAModelError, "PNG"),
    ("lfs", b"version https://git-lfs.github.com/spec/v1\n", NotAModelError, "LFS"),
    ("noise", bytes(range(256)) * 4, NotAModelError, "protobuf"),
    ("truncated", WHOLE[: len(WHOLE) // 2], NotAModelError, "whole|truncated|graph"),
    ("ir", relu(ir_version=99).SerializeToString(), UnsupportedError, "IR version"),
    ("opset", relu(opset=99).SerializeToString(), UnsupportedError, "opset"),
    ("old", relu(opset=6).SerializeToString(), UnsupportedError, "opset"),
    ("bf16", relu(dtype=TensorProto.BFLOAT16).SerializeToString(), UnsupportedError, "bfloat16"),
    ("zero size", relu(shape=[0, 4]).SerializeToString(), UnsupportedError, "no element"),
    (
        "operator",
        graph([helper.make_node("Rleu", ["x"], ["y"], name="typo")]).SerializeToString(),
        UnsupportedError,
        "typo.*no such operator",
    ),
    (
        "domain",
        graph(
            [helper.make_node("Magic", ["x"], ["y"], name="ours", domain="com.acme")],
            domains=("com.acme",),
        ).SerializeToString(),
        UnsupportedError,
        "ours.*com.acme",
    ),
    (
        "zipmap",
        zip_map().SerializeToString(),
        UnsupportedError,
        "ZipMap.*names no labels",
    ),
]


@pytest.mark.parametrize(("name", "content", "kind", "said"), BYTES, ids=[row[0] for row in BYTES])
def test_bad_input_is_named(
    tmp_path: Path, name: str, content: bytes, kind: type[OnnxsiteError], said: str
) -> None:
    path = tmp_path / "given.onnx"
    path.write_bytes(content)
    with pytest.raises(kind, match=f"given.onnx.*({said})"):
        onnx_file.load(path, shapes={})


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotAModelError, match="folder"):
        onnx_file.load(tmp_path, shapes={})
    with pytest.raises(NotAModelError, match=r"gone\.onnx"):
        onnx_file.load(tmp_path / "gone.onnx", shapes={})


def _missing(folder: Path) -> None:
    (folder / "w.bin").unlink()


def _short(folder: Path) -> None:
    (folder / "w.bin").write_bytes((folder / "w.bin").read_bytes()[:1000])


def _outside(folder: Path) -> None:
    model = onnx.load(folder / "large.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../etc/passwd"
    onnx.save(model, folder / "large.onnx")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_missing, "'w'.*w.bin.*missing"),
        (_short, "1000 bytes, 4096 are needed"),
        (_outside, "isn't in the model's folder"),
    ],
)
def test_bad_external_data_is_named(
    tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    path = large(tmp_path)
    harm(tmp_path)
    with pytest.raises(ExternalDataError, match=said):
        onnx_file.load(path, shapes={})


def test_external_data_come_in(tmp_path: Path) -> None:
    model = onnx_file.load(large(tmp_path), shapes={})
    x = np.ones((2, 4), np.float32)
    expected = x @ np.arange(1024, dtype=np.float32).reshape(4, 256)
    assert_close(Session(model.ir).run({"x": x})["y"], expected)
    assert model.provenance.name == "large.onnx"


def test_a_false_shape_is_corrected_and_what_was_inferred_from_it_dropped(tmp_path: Path) -> None:
    model = relu(shape=[10, 4])
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [10, 4]))
    path = tmp_path / "false.onnx"
    onnx.save(model, path)
    loaded = onnx_file.load(path, shapes={"x": ["batch", 4], "y": ["batch", 4]})
    assert loaded.signature.inputs[0].shape == ("batch", 4)
    assert loaded.signature.outputs[0].shape == ("batch", 4)
    assert any("[10,4]" in event.message for event in loaded.events)
    with pytest.raises(UsageError, match="z"):
        onnx_file.load(path, shapes={"z": [1]})


def test_weights_that_stand_among_the_inputs_are_no_inputs(tmp_path: Path) -> None:
    model = graph([helper.make_node("Add", ["x", "w"], ["y"])], ir_version=3, opset=7)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    onnx.save(model, tmp_path / "old.onnx")
    loaded = onnx_file.load(tmp_path / "old.onnx", shapes={})
    assert [spec.name for spec in loaded.signature.inputs] == ["x"]


@pytest.mark.parametrize("name", ["test_gru_defaults", "test_resize_upsample_scales_cubic"])
def test_graphs_of_onnx_give_what_onnx_says(tmp_path: Path, name: str) -> None:
    proto, inputs, outputs = protos()[name]
    path = tmp_path / "case.onnx"
    onnx.save(proto, path)
    model = onnx_file.load(path, shapes={})
    feeds = dict(zip([spec.name for spec in model.signature.inputs], inputs, strict=True))
    got = Session(model.ir).run(feeds)
    reference = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    for spec, expected, ours in zip(model.signature.outputs, outputs, reference, strict=True):
        assert_close(got[spec.name], expected, rtol=1e-3, atol=1e-5)
        assert_close(got[spec.name], ours, rtol=1e-5)
