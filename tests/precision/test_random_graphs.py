"""Random small graphs: all variants valid and right, whatever is shared, unnamed or captured."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from builder import passes
from builder.model import Array, Model, Provenance, Reference, Signature
from builder.passes.check import validate
from builder.precision import CONVERSIONS
from builder.session import Session
from builder.snr import snr_of

SHAPE = (4, 70)
UNARY = "Relu Neg Sin Sigmoid Tanh Identity Abs".split()
BINARY = "Add Sub Max".split()
WEIGHTS = {
    "w": np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32),
    "again": np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32),
    "square": np.random.default_rng(1).uniform(-0.1, 0.1, (70, 70)).astype(np.float32),
}


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """A few nodes over two inputs and shared weights; any values may be outputs."""
    known = ["x", "z", "w", "again"]
    nodes: list[onnx.NodeProto] = []
    for index in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["unary", "binary", "product", "constant", "if"]))
        pick = [draw(st.sampled_from(known)) for _ in range(2)]
        name = draw(st.sampled_from(["", f"n{index}"]))
        out = f"v{index}"
        if kind == "unary":
            node = helper.make_node(draw(st.sampled_from(UNARY)), pick[:1], [out], name=name)
        elif kind == "binary":
            node = helper.make_node(draw(st.sampled_from(BINARY)), pick, [out], name=name)
        elif kind == "product":
            node = helper.make_node("MatMul", [pick[0], "square"], [out], name=name)
        elif kind == "constant":
            tensor = numpy_helper.from_array(WEIGHTS["w"])
            node = helper.make_node("Constant", [], [out], name=name, value=tensor)
        else:
            branches = {
                branch: helper.make_graph(
                    [helper.make_node(op_type, pick, ["inner"])], "branch", [], [value("inner")]
                )
                for branch, op_type in (("then_branch", "Add"), ("else_branch", "Sub"))
            }
            node = helper.make_node("If", ["flag"], [out], name=name, **branches)
        nodes.append(node)
        known.append(out)
    made = known[4:]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x"), value("z"), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [value(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    opset = draw(st.sampled_from([13, 17, 21]))
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=draw(st.sampled_from([8, 10])),
    )


@settings(
    max_examples=60,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(proto=graphs(), flag=st.booleans())
def test_every_variant_is_valid_and_right(proto: onnx.ModelProto, flag: bool) -> None:
    graph = ir.from_proto(proto)
    source = Model(graph, Signature.of(graph.graph), Provenance("random"))
    rng = np.random.default_rng(2)
    feeds: dict[str, Array] = {
        name: rng.standard_normal(SHAPE).astype(np.float32) for name in ("x", "z")
    }
    feeds["flag"] = np.array(flag)
    expected = Session(proto.SerializeToString()).run(feeds)
    subject = passes.normalise(source, probes=[feeds])
    assert not [event for event in subject.events if "undone" in event.message]
    reference = Reference("r", feeds, expected)
    for dtype, conversion in CONVERSIONS.items():
        converted, _ = conversion.convert(subject, [reference])
        validate(converted, source.signature)
        got = Session(converted).run(feeds)
        for name, array in expected.items():
            assert snr_of(array, got[name]) > {"fp32": 100, "fp16": 45, "int8": 30}[dtype]
