"""TensorFlow's arithmetic, element by element and along axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from builder.sources.tfjs import nets
from builder.sources.tfjs.nodes import Node
from builder.sources.tfjs.values import AXIS, Graph, Value, is_turned

Emit = Callable[[Graph, Node, list[Value]], Value | list[Value]]
"""Writes what a node computes; several tensors where it gives several."""


def unary(kind: str) -> Emit:
    """An operator that ONNX has as well."""
    return lambda g, _node, x: g.unary(kind, x[0])


def binary(kind: str) -> Emit:
    """An operator that ONNX has as well, and that broadcasts alike."""
    return lambda g, _node, x: g.elementwise(kind, x[0], x[1])


def activation(name: str) -> Emit:
    """A row of `nets.ACTIVATIONS`."""
    return lambda g, _node, x: nets.ACTIVATIONS[name](g, x[0])


def number(g: Graph, like: Value, value: float) -> Value:
    """A scalar of the type of another tensor."""
    return Value(array=np.array(value, g.dtype(like)))


def _square(g: Graph, _node: Node, x: list[Value]) -> Value:
    return g.elementwise("Mul", x[0], x[0])


def _squared_difference(g: Graph, _node: Node, x: list[Value]) -> Value:
    difference = g.elementwise("Sub", x[0], x[1])
    return g.elementwise("Mul", difference, difference)


def _rsqrt(g: Graph, _node: Node, x: list[Value]) -> Value:
    return g.unary("Reciprocal", g.unary("Sqrt", x[0]))


def _log1p(g: Graph, _node: Node, x: list[Value]) -> Value:
    return g.unary("Log", g.elementwise("Add", x[0], number(g, x[0], 1)))


def _expm1(g: Graph, _node: Node, x: list[Value]) -> Value:
    return g.elementwise("Sub", g.unary("Exp", x[0]), number(g, x[0], 1))


def _not_equal(g: Graph, _node: Node, x: list[Value]) -> Value:
    return g.unary("Not", g.elementwise("Equal", x[0], x[1]))


def _floor_div(g: Graph, _node: Node, x: list[Value]) -> Value:
    if g.dtype(x[0]).kind == "f":
        return g.unary("Floor", g.elementwise("Div", x[0], x[1]))
    rest = g.elementwise("Mod", x[0], x[1])  # ONNX's division of integers rounds towards zero
    return g.elementwise("Div", g.elementwise("Sub", x[0], rest), x[1])


def _floor_mod(g: Graph, node: Node, x: list[Value]) -> Value:
    if g.dtype(x[0]).kind != "f":
        return g.elementwise("Mod", x[0], x[1])
    whole = g.elementwise("Mul", _floor_div(g, node, x), x[1])
    return g.elementwise("Sub", x[0], whole)


def _add_n(g: Graph, _node: Node, x: list[Value]) -> Value:
    total = x[0]
    for term in x[1:]:
        total = g.elementwise("Add", total, term)
    return total


def _clip(g: Graph, node: Node, x: list[Value]) -> Value:
    limits = [value.array for value in x[1:3]]
    if any(limit is None or limit.size != 1 for limit in limits):
        raise node.refuse("its limits aren't constant numbers")
    return g.unary("Clip", x[0], *(g.constant(a.reshape(())) for a in limits if a is not None))


def _leaky(g: Graph, node: Node, x: list[Value]) -> Value:
    return nets.leaky(g, x[0], node.number("alpha", 0.2))


def _select(g: Graph, node: Node, x: list[Value]) -> Value:
    if node.op == "Select" and g.rank(x[0]) not in (0, g.rank(x[1])):
        raise node.refuse("it selects whole rows")
    return g.elementwise("Where", *x)


def _like(fill: int) -> Emit:
    def emit(g: Graph, _node: Node, x: list[Value]) -> Value:
        values = np.array(fill, g.dtype(x[0]))
        shape = g.op("Shape", g.plain(x[0]))
        return Value(g.op("Expand", g.constant(values), shape))

    return emit


def axes_of(g: Graph, node: Node, x: Value, given: Value) -> list[int]:
    """Axes that a constant input names, counted from the first one.

    Raises:
        UnsupportedError: They aren't constant.
    """
    if given.array is None:
        raise node.refuse("its axes aren't constant")
    rank = g.rank(x)
    return [int(axis) % max(rank, 1) for axis in np.ravel(given.array)]


def reduce(g: Graph, kind: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """A reduction along axes, counted as TensorFlow does."""
    picture = set(axes) == {1, 2}
    if not axes:
        return x
    if not is_turned(x) or not (keep or picture):
        return Value(g.op(kind, g.plain(x), g.constant(list(axes)), keepdims=int(keep)))
    if picture and kind == "ReduceMean":
        mean = g.op("GlobalAveragePool", x.turned)
        if keep:
            return Value(turned=mean)
        return Value(g.op("Squeeze", mean, g.constant([2, 3])))
    places = g.constant(sorted(AXIS[axis] for axis in axes))
    result = g.op(kind, x.turned, places, keepdims=int(keep))
    return Value(turned=result) if keep else Value(result)


def reduction(kind: str) -> Emit:
    """A reduction whose axes are the second input; of booleans in int32."""

    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        dtype = g.dtype(x[0]).name
        value = g.cast_to(x[0], "int32") if dtype == "bool" else x[0]
        axes = axes_of(g, node, x[0], x[1])
        return g.cast_to(reduce(g, kind, value, axes, keep=node.flag("keep_dims")), dtype)

    return emit


def _arg(kind: str) -> Emit:
    def emit(g: Graph, node: Node, x: list[Value]) -> Value:
        (axis,) = axes_of(g, node, x[0], x[1])
        if is_turned(x[0]) and axis == 3:
            found = g.op(kind, x[0].turned, axis=1, keepdims=0)
        else:
            found = g.op(kind, g.plain(x[0]), axis=axis, keepdims=0)
        return g.cast_to(Value(found), node.dtype("output_type", "DT_INT64"))

    return emit


def _cast(g: Graph, node: Node, x: list[Value]) -> Value:
    result = g.cast_to(x[0], node.dtype("DstT"))
    if result is not x[0]:
        result.parts = x[0].parts
    return result


def _matmul(g: Graph, node: Node, x: list[Value]) -> Value:
    left, right = node.flag("transpose_a"), node.flag("transpose_b")
    return nets.product(g, x[0], x[1], turn_left=left, turn_right=right)


def _batch_matmul(g: Graph, node: Node, x: list[Value]) -> Value:
    names = []
    for value, flag in zip(x, ("adj_x", "adj_y"), strict=True):
        name, rank = g.plain(value), g.rank(value)
        if node.flag(flag):
            perm = [*range(rank - 2), rank - 1, rank - 2]
            name = g.op("Transpose", name, perm=perm)
        names.append(name)
    return Value(g.op("MatMul", *names))


def _einsum(g: Graph, node: Node, x: list[Value]) -> Value:
    return Value(g.op("Einsum", *map(g.plain, x), equation=node.text("equation")))


def _cumsum(g: Graph, node: Node, x: list[Value]) -> Value:
    (axis,) = axes_of(g, node, x[0], x[1])
    exclusive, reverse = (int(node.flag(name)) for name in ("exclusive", "reverse"))
    place = g.constant(axis)
    return Value(g.op("CumSum", g.plain(x[0]), place, exclusive=exclusive, reverse=reverse))


OPERATORS: Mapping[str, Emit] = {
    **{
        kind: unary(kind)
        for kind in "Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sign "
        "Sin Sinh Sqrt Tan Acosh Asinh Atanh".split()
    },
    "IsNan": unary("IsNaN"),
    "LogicalNot": unary("Not"),
    "Inv": unary("Reciprocal"),
    "Elu": activation("elu"),
    "LogSoftmax": activation("logsoftmax"),
    "Relu": activation("relu"),
    "Relu6": activation("relu6"),
    "Selu": activation("selu"),
    "Sigmoid": activation("sigmoid"),
    "Softmax": activation("softmax"),
    "Softplus": activation("softplus"),
    "Softsign": activation("softsign"),
    "Tanh": activation("tanh"),
    "Add": binary("Add"),
    "AddV2": binary("Add"),
    "Div": binary("Div"),
    "Equal": binary("Equal"),
    "Greater": binary("Greater"),
    "GreaterEqual": binary("GreaterOrEqual"),
    "Less": binary("Less"),
    "LessEqual": binary("LessOrEqual"),
    "LogicalAnd": binary("And"),
    "LogicalOr": binary("Or"),
    "Maximum": binary("Max"),
    "Minimum": binary("Min"),
    "Mul": binary("Mul"),
    "Pow": binary("Pow"),
    "Prelu": binary("PRelu"),
    "RealDiv": binary("Div"),
    "Sub": binary("Sub"),
    "AddN": _add_n,
    "ArgMax": _arg("ArgMax"),
    "ArgMin": _arg("ArgMin"),
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "Cast": _cast,
    "ClipByValue": _clip,
    "Cumsum": _cumsum,
    "Einsum": _einsum,
    "Expm1": _expm1,
    "FloorDiv": _floor_div,
    "FloorMod": _floor_mod,
    "LeakyRelu": _leaky,
    "Log1p": _log1p,
    "MatMul": _matmul,
    "NotEqual": _not_equal,
    "OnesLike": _like(1),
    "Rsqrt": _rsqrt,
    "Select": _select,
    "SelectV2": _select,
    "Square": _square,
    "SquaredDifference": _squared_difference,
    "ZerosLike": _like(0),
    "All": reduction("ReduceMin"),
    "Any": reduction("ReduceMax"),
    "Max": reduction("ReduceMax"),
    "Mean": reduction("ReduceMean"),
    "Min": reduction("ReduceMin"),
    "Prod": reduction("ReduceProd"),
    "Sum": reduction("ReduceSum"),
}
"""By TensorFlow's names."""
