"""Random small graphs: all forms valid and right, whatever is shared, unnamed, captured, listed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import builder.precision
from builder import passes
from builder.errors import OnnxsiteError
from builder.model import Array, Model, Provenance, Reference, Signature
from builder.passes.check import validate
from builder.precision import FORMS, Subject
from builder.recipe import OPT_IN
from builder.session import Session
from builder.snr import snr_of

SHAPE = (4, 70)
UNARY = "Relu Neg Sin Sigmoid Tanh Identity Abs".split()
BINARY = "Add Sub Max".split()
WEIGHTS = {
    "w": np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32),
    "again": np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32),
    "square": np.random.default_rng(1).uniform(-0.1, 0.1, (70, 70)).astype(np.float32),
    "huge": np.full(SHAPE, 1e6, np.float32),
    "tiny": np.full((70,), 1e-7, np.float32),
}
MINIMA = {"fp32": 100.0, "fp16": 45.0, "int8": 15.0, "q4": 8.0, "q4f16": 8.0} | dict.fromkeys(
    OPT_IN, 15.0
)
"""dB."""


@pytest.fixture(autouse=True, scope="module")
def _small_limits() -> Iterator[None]:
    """Sizes from which on weights are stored in fewer bits."""
    with pytest.MonkeyPatch.context() as patch:
        for module in pkgutil.iter_modules(builder.precision.__path__):
            part = importlib.import_module(f"builder.precision.{module.name}")
            for name in vars(part):
                if name.isupper() and name.endswith("ELEMENTS"):
                    patch.setattr(part, name, 32)
        yield


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)


@st.composite
def branches(draw: st.DrawFn, known: list[str], depth: int = 0) -> onnx.GraphProto:
    """A branch of an If: reads outer values, and may hold weights and another If."""
    one, two = (draw(st.sampled_from(known)) for _ in range(2))
    kind = draw(st.sampled_from(["add", "sub", "product", "constant", "outer", "nested"]))
    tensors: list[onnx.TensorProto] = []
    if kind == "product":
        nodes = [helper.make_node("MatMul", [one, "square"], ["inner"])]
    elif kind == "constant":
        constant = helper.make_node(
            "Constant", [], ["k"], value=numpy_helper.from_array(WEIGHTS["w"])
        )
        nodes = [constant, helper.make_node("Add", [one, "k"], ["inner"])]
    elif kind == "outer":
        tensors = [numpy_helper.from_array(WEIGHTS["square"], "mine")]
        nodes = [
            helper.make_node("MatMul", [one, "mine"], ["m"]),
            helper.make_node("Identity", [two], ["inner"]),
        ]
    elif kind == "nested" and depth == 0:
        both = {name: draw(branches(known, 1)) for name in ("then_branch", "else_branch")}
        nodes = [helper.make_node("If", ["flag"], ["inner"], **both)]
    else:
        nodes = [helper.make_node("Add" if kind == "add" else "Sub", [one, two], ["inner"])]
    if depth:  # a nested branch must not use the names of its parent again
        for node in nodes:
            node.input[:] = [f"deep_{n}" if n in ("k", "mine", "m") else n for n in node.input]
            node.output[:] = [f"deep_{n}" for n in node.output]
        for tensor in tensors:
            tensor.name = f"deep_{tensor.name}"
    return helper.make_graph(nodes, "branch", [], [value(nodes[-1].output[0])], tensors)


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """A few nodes over two inputs and shared weights; any values may be outputs, inputs too."""
    known = ["x", "z", "w", "again"]
    nodes: list[onnx.NodeProto] = []
    for index in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["unary", "binary", "product", "constant", "extreme", "if"]))
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
        elif kind == "extreme":
            weight = draw(st.sampled_from(["huge", "tiny"]))
            node = helper.make_node("Mul", [pick[0], weight], [out], name=name)
        else:
            both = {name: draw(branches(known)) for name in ("then_branch", "else_branch")}
            node = helper.make_node("If", ["flag"], [out], name=name, **both)
        nodes.append(node)
        known.append(out)
    listed = st.lists(st.sampled_from(["x", "w", *known[4:]]), max_size=3)
    outputs = list(dict.fromkeys([draw(st.sampled_from(known[4:])), *draw(listed)]))
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
def test_every_form_is_valid_and_right(proto: onnx.ModelProto, flag: bool) -> None:
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
    reduced = Subject(subject, [Reference("r", feeds, expected)])
    for form in FORMS:
        try:
            converted = form.convert(reduced, frozenset())
        except OnnxsiteError:  # it has a reason by construction
            continue
        if converted is None:
            continue
        event(form.name)
        validate(converted.ir, source.signature)
        for session in (Session(converted.ir), form.session(converted.ir)):
            got = session.run(feeds)
            for name, array in expected.items():
                assert snr_of(array, got[name]) > MINIMA[form.dtype], form.name
