"""What the web runtime can run: held against what it was seen to do in a browser."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from builder.errors import UnsupportedError
from builder.webruntime import support


def model(
    *nodes: onnx.NodeProto,
    dtype: int = TensorProto.FLOAT,
    opset: int = 17,
    domains: tuple[str, ...] = (),
) -> ir.Model:
    """x to y through `nodes`, with all types inferred."""
    ends = [helper.make_tensor_value_info(name, dtype, [2, 4]) for name in ("x", "y")]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return ir.from_proto(onnx.shape_inference.infer_shapes(made))


def unary(op_type: str, domain: str = "") -> onnx.NodeProto:
    return helper.make_node(op_type, ["x"], ["y"], name="node", domain=domain)


# From the operator table of onnxruntime-web (js/web/docs/webgpu-operators.md) and its releases.
ON_GPU = ["Relu", "Softmax", "Erf", "Sigmoid", "Sin"]


@pytest.mark.parametrize("op_type", ON_GPU)
def test_known_operators_run_on_the_gpu(op_type: str) -> None:
    graph = model(unary(op_type))
    support.check(graph)
    assert support.cpu_operators(graph) == []
    assert ("", op_type) in support.webgpu_operators()


def test_an_operator_without_a_gpu_kernel_is_listed() -> None:
    graph = model(helper.make_node("Det", ["x"], ["d"]), helper.make_node("Relu", ["x"], ["y"]))
    assert support.cpu_operators(graph) == ["Det"]


def test_a_newer_version_without_a_gpu_kernel_is_told_from_the_older() -> None:
    assert support.cpu_operators(model(unary("Sin"), opset=17)) == []
    assert support.cpu_operators(model(unary("Sin"), opset=22)) == ["Sin"]


def test_arithmetic_on_shapes_belongs_on_the_cpu() -> None:
    graph = model(
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Add", ["shape", "shape"], ["twice"]),
        helper.make_node("Sub", ["twice", "shape"], ["same"]),
        helper.make_node("Reshape", ["x", "same"], ["y"]),
    )
    assert support.cpu_operators(graph) == []


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (model(unary("Relu"), opset=6), "opset 6 is older than 7"),
        (model(unary("Rleu")), r"node 'node' \(Rleu\): opset 17 has no such operator"),
        (model(unary("Gelu"), opset=17), "opset 17 has no such operator"),  # new in opset 20
        (model(unary("F", "org.x"), domains=("org.x",)), "org.x.F.*domain 'org.x'"),
        (
            model(unary("Normalizer", "ai.onnx.ml"), domains=("ai.onnx.ml",)),
            "Normalizer.*keep the step outside",
        ),
        (model(unary("Abs"), dtype=TensorProto.BFLOAT16), "elements of type bfloat16"),
        (model(unary("Acos"), dtype=TensorProto.DOUBLE), "elements of type float64"),
    ],
)
def test_what_cannot_run_is_named(graph: ir.Model, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        support.check(graph)


def test_the_opsets_stated_are_those_of_the_table() -> None:
    newest = max(version for operator, version in support.kernels() if "." not in operator)
    assert newest <= support.OPSET_MAX
    assert onnx.defs.onnx_opset_version() >= support.OPSET_MAX
