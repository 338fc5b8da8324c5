"""Tensors of TensorFlow in an ONNX graph that is being written, channels last or second.

TensorFlow keeps channels on the last axis, ONNX's convolutions want them on the second. A tensor is
`plain` in TensorFlow's order and `turned` in ONNX's; whichever is asked for is made once, so a
chain of convolutions and what lies between stays turned, and there are transposes at its ends
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from builder.errors import UnsupportedError
from builder.model import Array
from builder.sources.writer import Writer

OPSET = 18

TURN, BACK = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders of axes that turn NHWC into NCHW, and back."""

AXIS = (0, 2, 3, 1)
"""Where an axis of NHWC is in NCHW."""

SMALL = 1024
"""Elements of a constant that shapes may depend on."""

OPSETS = [helper.make_opsetid("", OPSET)]

Dims = list[int | None]


@dataclass(eq=False)
class Value:
    """A tensor.

    Attributes:
        plain: Its name with axes in TensorFlow's order; empty until someone asks.
        turned: Its name with NCHW, where it has four axes; empty until someone asks.
        array: What it holds, if it is constant.
        parts: What a vector or scalar of a shape's extents holds, as far as that is known.
        readers: How many nodes and outputs read it.
    """

    plain: str = ""
    turned: str = ""
    array: Array | None = None
    parts: list[int | None] | None = None
    readers: int = 0


def is_turned(value: Value) -> bool:
    """Whether a tensor is there with channels second, and not otherwise."""
    return bool(value.turned) and not value.plain and value.array is None


class Graph(Writer):
    """A writer that knows type and shape of everything, and both orders of axes."""

    def __init__(self) -> None:
        super().__init__("", OPSET, set())
        self.types: dict[str, onnx.TypeProto] = {}
        self._small: dict[str, onnx.TensorProto] = {}
        self._producers: dict[str, onnx.NodeProto] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        """An input of the graph."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.types[name] = helper.make_tensor_type_proto(kind, list(shape))
        self._taken.add(name)
        return Value(name)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being given to anything else."""
        self._taken.update(names)

    def constant(self, array: Array | Sequence[int] | float | int) -> str:
        """See `Writer.constant`."""
        name = super().constant(array)
        if name not in self.types:
            tensor = self.constants[-1]
            self.types[name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            if int(np.prod(tensor.dims)) <= SMALL:
                self._small[name] = tensor
        return name

    def add(self, node: onnx.NodeProto) -> None:
        """Add a node, and infer what it gives.

        Raises:
            UnsupportedError: Its inputs don't fit together.
        """
        super().add(node)
        schema = onnx.defs.get_schema(node.op_type, OPSET, node.domain)
        given = {name: self.types[name] for name in node.input if name}
        small = {name: self._small[name] for name in node.input if name in self._small}
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, given, small, opset_imports=OPSETS
            )
        except onnx.shape_inference.InferenceError as error:
            why = f"its inputs don't fit together ({str(error).strip()})"
            raise self.refuse(why) from error
        self.types.update(found)
        self._producers |= dict.fromkeys(node.output, node)

    def refuse(self, why: str, remedy: str = "") -> UnsupportedError:
        """The error for what can't be written with standard operators."""
        return UnsupportedError(f"node '{self.stem}'", why, remedy)

    def plain(self, value: Value) -> str:
        """The name of a tensor in TensorFlow's order of axes."""
        if not value.plain and value.array is not None:
            value.plain = self.constant(value.array)
        if not value.plain:
            value.plain = self.op("Transpose", value.turned, perm=BACK)
        return value.plain

    def turned(self, value: Value) -> str:
        """The name of a tensor with channels second; one of fewer axes gets leading ones."""
        if value.turned:
            return value.turned
        rank = self.rank(value)
        if value.array is not None:
            array = value.array.reshape((1,) * (4 - rank) + value.array.shape)
            value.turned = self.constant(np.ascontiguousarray(array.transpose(TURN)))
            return value.turned
        name = value.plain
        if rank < 4:
            name = self.op("Unsqueeze", name, self.constant(list(range(4 - rank))))
        value.turned = self.op("Transpose", name, perm=TURN)
        return value.turned

    def dims(self, value: Value) -> Dims | None:
        """Extents in TensorFlow's order, None for a free one; None if the rank isn't known."""
        if value.array is not None:
            return list(value.array.shape)
        shape = self.shape_of(value.plain or value.turned)
        if shape is None or value.plain:
            return shape
        return [shape[axis] for axis in BACK]

    def rank(self, value: Value) -> int:
        """The number of axes.

        Raises:
            UnsupportedError: It isn't known.
        """
        dims = self.dims(value)
        if dims is None:
            raise self.refuse("the rank of what it reads isn't known")
        return len(dims)

    def shape_of(self, name: str) -> Dims | None:
        """Extents of a tensor in the graph, None for a free one."""
        kind = self.types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        found = kind.tensor_type.shape.dim
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in found]

    def dtype(self, value: Value) -> np.dtype[Any]:
        """NumPy's element type."""
        if value.array is not None:
            return value.array.dtype
        kind = self.types[value.plain or value.turned].tensor_type.elem_type
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind))

    def producer(self, name: str) -> onnx.NodeProto | None:
        """The node that gives a tensor."""
        return self._producers.get(name)

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """A tensor in another shape; one extent may be -1."""
        return self.op("Reshape", name, self.constant(list(shape)))

    def ranked(self, name: str, rank: int) -> str:
        """Say the rank of a tensor whose shape inference gave up on."""
        if self.shape_of(name) is None:
            kind = self.types[name].tensor_type.elem_type
            self.types[name] = helper.make_tensor_type_proto(kind, [None] * rank)
        return name

    def elementwise(self, kind: str, *values: Value, **attributes: Any) -> Value:
        """An operator that broadcasts, in the order of axes that the inputs have."""
        dims = [self.dims(value) for value in values]
        ranks = [9 if shape is None else len(shape) for shape in dims]
        if max(ranks) == 4 and any(map(is_turned, values)):
            pairs = zip(values, ranks, strict=True)
            names = [self.turned(v) if rank else self.plain(v) for v, rank in pairs]
            return Value(turned=self.op(kind, *names, **attributes))
        return Value(self.op(kind, *map(self.plain, values), **attributes))

    def unary(self, kind: str, value: Value, *more: str, **attributes: Any) -> Value:
        """An operator on each element; `more` are inputs that no axis matters for."""
        if is_turned(value):
            return Value(turned=self.op(kind, value.turned, *more, **attributes))
        return Value(self.op(kind, self.plain(value), *more, **attributes))

    def floats(self, value: Value, number: float) -> str:
        """A scalar constant of a tensor's own type."""
        return self.constant(np.array(number, self.dtype(value)))

    def cast_to(self, value: Value, dtype: str) -> Value:
        """A tensor in another type, by NumPy's name."""
        if self.dtype(value) == np.dtype(dtype):
            return value
        if value.array is not None:
            return Value(array=value.array.astype(dtype))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        if is_turned(value):
            return Value(turned=self.cast(value.turned, kind))
        return Value(self.cast(self.plain(value), kind))

    def model(self, inputs: Sequence[str], outputs: Sequence[str], name: str) -> onnx.ModelProto:
        """The finished graph, of what its outputs need."""

        def ends(names: Sequence[str]) -> list[onnx.ValueInfoProto]:
            return [helper.make_value_info(n, self.types[n]) for n in names]

        wanted, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        weights = [tensor for tensor in self.constants if tensor.name in wanted]
        graph = helper.make_graph(nodes[::-1], name, ends(inputs), ends(outputs), weights)
        return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)
