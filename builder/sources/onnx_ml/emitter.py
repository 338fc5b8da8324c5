"""Write standard nodes in the place of one node of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from builder.errors import UnsupportedError
from builder.model import Array
from builder.sources.writer import BOOL, FLOAT, INT64, Writer

__all__ = ["BOOL", "FLOAT", "INT64", "OPSET", "Emitter"]

OPSET = 13
"""Oldest opset that is written here."""


class Emitter(Writer):
    """What one node becomes.

    Args:
        node: The node that is replaced.
        opset: Of the standard operators, `OPSET` or newer.
        taken: Names in use; every fresh one is added.

    Attributes:
        node: The node that is replaced.
    """

    def __init__(self, node: onnx.NodeProto, opset: int, taken: set[str]) -> None:
        stem = node.name or (node.output[0] if node.output else node.op_type)
        super().__init__(stem, opset, taken)
        self.node = node
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def refuse(self, why: str, remedy: str = "") -> UnsupportedError:
        """The error for what can't be written with standard operators."""
        return UnsupportedError(f"node '{self.stem}' ({self.node.op_type})", why, remedy)

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
