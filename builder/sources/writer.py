"""Write standard nodes, and the constants that they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from builder.model import Array

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


class Writer:
    """Nodes in order, and the constants that they read.

    Args:
        stem: What fresh names begin with.
        opset: Of the standard operators, 13 or newer.
        taken: Names in use; every fresh one is added.

    Attributes:
        stem: What fresh names begin with, from now on.
        nodes: What was written so far.
        constants: Initializers for it, each stored once.
    """

    def __init__(self, stem: str, opset: int, taken: set[str]) -> None:
        self.stem = stem
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._opset = opset
        self._taken = taken
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def constant(self, array: Array | Sequence[int] | float | int) -> str:
        """The name of an initializer; Python's own numbers become int64 and float32."""
        value = np.asarray(array)
        if not isinstance(array, (np.ndarray, np.generic)):
            value = value.astype(np.float32 if value.dtype.kind == "f" else np.int64)
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = self._fresh("constant")
            self.constants.append(numpy_helper.from_array(value, self._known[key]))
        return self._known[key]

    def op(self, kind: str, /, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add a node with one output, and give that; it is called `to`, or by a fresh name."""
        output = to or self._fresh(kind.lower())
        name = self._fresh(f"{kind.lower()}_node")
        self.add(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def split(self, kind: str, count: int, /, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs, and give those."""
        outputs = [self._fresh(kind.lower()) for _ in range(count)]
        name = self._fresh(f"{kind.lower()}_node")
        self.add(helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs

    def add(self, node: onnx.NodeProto) -> None:
        """Add a node as it is."""
        self.nodes.append(node)

    def cast(self, value: str, dtype: int, to: str = "") -> str:
        """`value` as another element type."""
        output = to or self._fresh("cast")
        name = self._fresh("cast_node")
        self.add(helper.make_node("Cast", [value], [output], name=name, to=dtype))
        return output

    def reduce(self, kind: str, value: str, *, axis: int = -1, keepdims: int = 1) -> str:
        """A reduction along one axis; where that is written depends on the opset."""
        if self._opset >= (13 if kind == "ReduceSum" else 18):
            return self.op(kind, value, self.constant([axis]), keepdims=keepdims)
        return self.op(kind, value, axes=[axis], keepdims=keepdims)

    def _fresh(self, kind: str) -> str:
        number = 0
        while (name := f"{self.stem}/{kind}{f'_{number}' if number else ''}") in self._taken:
            number += 1
        self._taken.add(name)
        return name
