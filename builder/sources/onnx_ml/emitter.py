"""Write standard nodes in the place of one node of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from builder.errors import UnsupportedError
from builder.model import Array

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL

OPSET = 13
"""Oldest opset that is written here."""


class Emitter:
    """What one node becomes: nodes in order, and the constants that they read.

    Args:
        node: The node that is replaced.
        opset: Of the standard operators, `OPSET` or newer.
        taken: Names in use; every fresh one is added.

    Attributes:
        node: The node that is replaced.
        nodes: What was written so far.
        constants: Initializers for it, each stored once.
    """

    def __init__(self, node: onnx.NodeProto, opset: int, taken: set[str]) -> None:
        self.node = node
        self._opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._taken = taken
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._stem = node.name or (node.output[0] if node.output else node.op_type)
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def refuse(self, why: str, remedy: str = "") -> UnsupportedError:
        """The error for what can't be written with standard operators."""
        return UnsupportedError(f"node '{self._stem}' ({self.node.op_type})", why, remedy)

    def floats(self, name: str) -> Array:
        """An attribute of floats, f32[n]; empty if it isn't there."""
        return np.asarray(self._attributes.get(name, []), np.float32)

    def integers(self, name: str) -> Array:
        """An attribute of integers, i64[n]; empty if it isn't there."""
        return np.asarray(self._attributes.get(name, []), np.int64)

    def strings(self, name: str) -> list[str]:
        """An attribute of strings; empty if it isn't there."""
        return [entry.decode() for entry in self._attributes.get(name, [])]

    def text(self, name: str, default: str) -> str:
        """An attribute that is one string."""
        value: bytes = self._attributes.get(name, default.encode())
        return value.decode()

    def value(self, name: str, default: Any) -> Any:
        """An attribute of any kind."""
        return self._attributes.get(name, default)

    def tensor(self, name: str) -> Array | None:
        """An attribute that is a tensor, if it is there."""
        found = self._attributes.get(name)
        return None if found is None else numpy_helper.to_array(found)

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
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def cast(self, value: str, dtype: int, to: str = "") -> str:
        """`value` as another element type."""
        output = to or self._fresh("cast")
        name = self._fresh("cast_node")
        self.nodes.append(helper.make_node("Cast", [value], [output], name=name, to=dtype))
        return output

    def reduce(self, kind: str, value: str, *, axis: int = -1, keepdims: int = 1) -> str:
        """A reduction along one axis; where that is written depends on the opset."""
        if self._opset >= (13 if kind == "ReduceSum" else 18):
            return self.op(kind, value, self.constant([axis]), keepdims=keepdims)
        return self.op(kind, value, axes=[axis], keepdims=keepdims)

    def _fresh(self, kind: str) -> str:
        number = 0
        while (name := f"{self._stem}/{kind}{f'_{number}' if number else ''}") in self._taken:
            number += 1
        self._taken.add(name)
        return name
