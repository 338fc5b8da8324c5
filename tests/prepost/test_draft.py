"""Drafted graphs are valid, the same bytes every time, and keep what they say of their inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from builder.prepost import Draft, free_name, signature_of
from builder.session import Session


def _draft() -> ir.Model:
    g = Draft("twice_plus_two")
    x = g.input("x", "float32", ["n"], default=[1.5], description="A number.")
    doubled = g.add("Mul", x, np.float32(2), name="doubled")
    g.output(g.add("Add", doubled, np.array(2, np.float32)), "y", "float32", ["n"])
    return g.model()


def test_a_draft_is_a_valid_model_that_runs() -> None:
    model = _draft()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert Session(model).run({"x": np.array([3, 4], np.float32)})["y"].tolist() == [8, 10]


def test_two_drafts_are_the_same_bytes() -> None:
    first, second = (ir.to_proto(_draft()).SerializeToString() for _ in range(2))
    assert first == second


def test_equal_constants_are_stored_once_and_everything_has_a_name() -> None:
    graph = ir.to_proto(_draft()).graph
    assert [tensor.name for tensor in graph.initializer] == ["constant_1"]
    assert [node.name for node in graph.node] == ["doubled", "add_1"]


def test_versions_are_those_that_the_web_runtime_takes() -> None:
    proto = ir.to_proto(_draft())
    assert proto.ir_version == 10
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 18)]


def test_default_and_description_survive_the_file() -> None:
    content = ir.to_proto(_draft()).SerializeToString()
    again = ir.from_proto(onnx.load_model_from_string(content))
    (x,) = signature_of(again).inputs
    assert (x.default, x.description, x.shape) == ((1.5,), "A number.", ("n",))


def test_a_taken_name_gets_the_prefix_until_it_is_free() -> None:
    assert free_name("image", {"input"}, "raw_") == "image"
    assert free_name("image", {"image"}, "raw_") == "raw_image"
    assert free_name("image", {"image", "raw_image"}, "raw_") == "raw_raw_image"
