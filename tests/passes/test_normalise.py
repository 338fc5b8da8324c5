"""Normal form as a whole: what holds afterwards, and what is undone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder import passes
from builder.errors import ConversionError, UnsupportedError
from builder.model import Array, Model, Provenance, Signature
from builder.passes.base import Pass, nodes_of
from builder.session import Session
from tests.precision.small import model, operators, run, weight

RNG = np.random.default_rng(3)


def of_proto(proto: onnx.ModelProto) -> Model:
    graph = ir.from_proto(proto)
    return Model(graph, Signature.of(graph.graph), Provenance("test"))


def messages(subject: Model, level: str) -> list[str]:
    return [event.message for event in subject.events if event.level == level]


def proto_of(
    nodes: list[onnx.NodeProto],
    weights: dict[str, Array] | None = None,
    *,
    opset: int = 18,
    ir_version: int = 10,
    shape: tuple[int, ...] = (2,),
    listed: bool = False,
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if listed:
        inputs += [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape)
            for n, a in (weights or {}).items()
        ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def test_unnamed_nodes_and_shared_names_become_unique() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"], name="n"),
        helper.make_node("Abs", ["b"], ["y"], name="n"),
    ]
    graph = passes.normalise(of_proto(proto_of(nodes))).ir
    names = [node.name for node in graph.graph]
    assert len(set(names)) == 3
    assert all(names)
    assert names[1] == "n"


def test_two_runs_give_the_same_bytes() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    first, second = (passes.normalise(of_proto(proto_of(nodes))).ir for _ in range(2))
    assert ir.to_proto(first).SerializeToString(deterministic=True) == ir.to_proto(
        second
    ).SerializeToString(deterministic=True)


def test_the_given_model_is_unchanged() -> None:
    subject = model(
        "g (float[2] x) => (float[2] y) { c = Constant<value_float = 2.0>()  y = Mul(x, c) }"
    )
    before = ir.to_proto(subject.ir).SerializeToString(deterministic=True)
    passes.normalise(subject)
    assert ir.to_proto(subject.ir).SerializeToString(deterministic=True) == before


def test_weights_listed_as_inputs_are_unlisted() -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    proto = proto_of(nodes, {"w": np.ones(2, np.float32)}, ir_version=3, listed=True)
    graph = passes.normalise(of_proto(proto)).ir
    assert [value.name for value in graph.graph.inputs] == ["x"]
    assert graph.ir_version == 10


def test_unused_inputs_stay_and_unused_nodes_go() -> None:
    subject = passes.normalise(
        model(
            "g (float[2] x, float[3] unused) => (float[2] y) { dead = Mul(unused, w)  y = Neg(x) }",
            {"w": np.ones(3, np.float32)},
        )
    )
    assert [value.name for value in subject.ir.graph.inputs] == ["x", "unused"]
    assert operators(subject.ir) == ["Neg"]
    assert not subject.ir.graph.initializers
    x = np.array([1, 2], np.float32)
    out = Session(subject.ir).run({"x": x, "unused": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(out["y"], -x)


def test_notes_are_cleared() -> None:
    proto = proto_of([helper.make_node("Neg", ["x"], ["y"], doc_string="/home/someone/model.py:3")])
    proto.producer_name, proto.doc_string = "pytorch", "made by hand"
    proto.graph.doc_string = "note"
    helper.set_model_props(proto, {"author": "someone"})
    cleared = ir.to_proto(passes.normalise(of_proto(proto)).ir)
    assert cleared.producer_name == cleared.doc_string == cleared.graph.doc_string == ""
    assert not cleared.metadata_props
    assert not cleared.graph.node[0].doc_string


def test_opset_7_becomes_17_with_the_same_values() -> None:
    w, b, mean, var = (np.abs(RNG.standard_normal(3)).astype(np.float32) for _ in range(4))
    x = RNG.standard_normal((1, 3, 4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("BatchNormalization", ["x", "w", "b", "m", "v"], ["n"]),
        helper.make_node("Dropout", ["n"], ["d"]),
        helper.make_node("Clip", ["d"], ["y"], min=0.0, max=6.0),
    ]
    weights: dict[str, Array] = {"w": w, "b": b, "m": mean, "v": var}
    proto = proto_of(nodes, weights, opset=7, ir_version=3, shape=x.shape, listed=True)
    subject = passes.normalise(of_proto(proto))
    assert subject.ir.opset_imports[""] == 17
    wide = [array.reshape(1, 3, 1, 1) for array in (w, b, mean, var)]
    expected = np.clip((x - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1], 0, 6)
    np.testing.assert_allclose(run(subject.ir, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_foreign_operators_keep_their_opset_and_say_so() -> None:
    proto = proto_of(
        [
            helper.make_node("Clip", ["x"], ["a"], min=0.0),
            helper.make_node("Gelu", ["a"], ["y"], domain="com.microsoft"),
        ],
        opset=10,
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    subject = passes.normalise(of_proto(proto))
    assert subject.ir.opset_imports[""] == 10
    assert "com.microsoft.Gelu" in messages(subject, "warning")[0]


def test_newest_opset_is_relabelled_where_nothing_changed() -> None:
    newest = onnx.defs.onnx_opset_version()
    subject = passes.normalise(
        of_proto(proto_of([helper.make_node("Neg", ["x"], ["y"])], opset=newest))
    )
    assert subject.ir.opset_imports[""] == 26


def test_operator_that_the_web_runtime_does_not_know_yet_is_refused() -> None:
    proto = proto_of([helper.make_node("Mod", ["x", "x"], ["y"], fmod=0)], opset=28)
    with pytest.raises(UnsupportedError, match="opset 28 is newer than 26"):
        passes.normalise(of_proto(proto))


def test_tied_weights_are_stored_once() -> None:
    w = RNG.standard_normal((64, 64)).astype(np.float32)
    subject = passes.normalise(
        model(
            "g (float[2, 64] x) => (float[2, 64] y) { a = MatMul(x, w1)  y = MatMul(a, w2) }",
            {"w1": w, "w2": w.copy()},
        )
    )
    assert len(subject.ir.graph.initializers) == 1
    assert any("16384 bytes saved" in message for message in messages(subject, "info"))


def test_equal_bytes_of_another_shape_or_dtype_are_not_tied() -> None:
    subject = passes.normalise(
        model(
            """g (float[2] x) => (float[2, 2] y, int64[2] z) {
                y = Add(x, w1)
                z = Add(w2, w3)
            }""",
            {
                "w1": np.zeros((2, 1), np.float32),
                "w2": np.zeros(1, np.int64),
                "w3": np.zeros(2, np.int64),
            },
        )
    )
    assert weight(subject.ir, "w1").shape == (2, 1)


def test_hundreds_of_weight_files_come_into_memory(tmp_path: Path) -> None:
    count = 300
    nodes = [
        helper.make_node("Mul", ["x" if i == 0 else f"v{i}", f"w{i}"], [f"v{i + 1}"])
        for i in range(count - 1)
    ]
    nodes.append(helper.make_node("Mul", [f"v{count - 1}", f"w{count - 1}"], ["y"]))
    weights: dict[str, Array] = {
        f"w{i}": np.full(512, 1 + (i % 7) / 1000, np.float32) for i in range(count)
    }
    proto = proto_of(nodes, weights, shape=(512,))
    onnx.external_data_helper.convert_model_to_external_data(
        proto, all_tensors_to_one_file=False, size_threshold=0
    )
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = ir.load(tmp_path / "m.onnx")
    subject = Model(loaded, Signature.of(loaded.graph), Provenance("m.onnx"))
    graph = passes.normalise(subject).ir
    assert not any(
        isinstance(v.const_value, ir.ExternalTensor) for v in graph.graph.initializers.values()
    )
    assert len(graph.graph.initializers) == 7
    x = np.ones(512, np.float32)
    expected = np.prod([1 + (i % 7) / 1000 for i in range(count)])
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-4)


def test_functions_are_inlined() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        g (float[2] x) => (float[2] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 18]>
        twice (a) => (b) { b = Add(a, a) }"""
    )
    subject = passes.normalise(of_proto(proto))
    assert operators(subject.ir) == ["Add"]
    assert not subject.ir.functions
    assert set(subject.ir.opset_imports) == {""}


def test_left_out_optional_outputs_stay_left_out() -> None:
    subject = passes.normalise(
        model(
            "g (float[5, 1, 8] x) => (float[1, 1, 8] y) { s, y = LSTM<hidden_size = 8>(x, w, r) }",
            {
                "w": RNG.standard_normal((1, 32, 8)).astype(np.float32),
                "r": RNG.standard_normal((1, 32, 8)).astype(np.float32),
            },
        )
    )
    node = next(iter(nodes_of(subject.ir)))
    assert not node.outputs[0].name


def test_random_operators_are_not_compared() -> None:
    subject = passes.normalise(
        model(
            """g (float[2] x) => (float[2] y) {
                r = RandomNormalLike(x)
                i = Identity(r)
                y = Add(x, i)
            }"""
        )
    )
    assert operators(subject.ir) == ["RandomNormalLike", "Add"]
    assert any("drawn at random" in message for message in messages(subject, "info"))


class _Breaks(Pass):
    """A pass that changes what the graph computes."""

    step = "break"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        next(iter(model.graph)).op_type = "Abs"
        return ir.passes.PassResult(model, True)


class _Drops(Pass):
    """A pass that drops an input."""

    step = "drop"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        model.graph.inputs.pop()
        return ir.passes.PassResult(model, True)


class _Raises(Pass):
    """A pass that fails."""

    step = "raise"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        raise ValueError("an odd graph")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (_Breaks, "output 'y' agrees to"),
        (_Drops, "its signature became"),
        (_Raises, "it fails (ValueError: an odd graph)"),
    ],
)
def test_a_pass_that_changes_the_result_is_undone(
    step: type[Pass], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "STEPS", (step, *passes.STEPS))
    subject = passes.normalise(
        model("g (float[n] x, float[1] unused) => (float[n] y) { y = Neg(x) }")
    )
    assert any(message.startswith(f"undone: {reason}") for message in messages(subject, "warning"))
    x = np.array([1, -2], np.float32)
    out = run(subject.ir, {"x": x, "unused": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(out["y"], -x)


def test_an_invalid_source_is_refused() -> None:
    proto = proto_of([helper.make_node("NoSuchOperator", ["x"], ["y"])])
    with pytest.raises(ConversionError, match="NoSuchOperator"):
        passes.normalise(of_proto(proto))
