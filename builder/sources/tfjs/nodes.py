"""The nodes of a TensorFlow graph as JSON has them, in the order in which they are computed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.errors import NotAModelError, UnsupportedError

ONNX_TYPES: Mapping[str, str] = {
    "DT_FLOAT": "float32",
    "DT_HALF": "float16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_BOOL": "bool",
    "DT_UINT8": "uint8",
    "DT_INT8": "int8",
}
"""NumPy's names of TensorFlow's types."""


@dataclass(frozen=True)
class Node:
    """A node.

    Attributes:
        name: Its own.
        op: Its operator.
        inputs: Names of nodes, with `:1` and so on for others than the first of their outputs.
        attributes: As JSON has them, by name.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def refuse(self, why: str, remedy: str = "") -> UnsupportedError:
        """The error for what can't be written with standard operators."""
        return UnsupportedError(f"node '{self.name}' ({self.op})", why, remedy)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a string."""
        found = self.attributes.get(name, {}).get("s")
        return default if found is None else base64.b64decode(found).decode()

    def texts(self, name: str) -> list[str]:
        """An attribute that is a list of strings."""
        found = self.attributes.get(name, {}).get("list", {}).get("s", [])
        return [base64.b64decode(text).decode() for text in found]

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is an integer."""
        return int(self.attributes.get(name, {}).get("i", default))

    def integers(self, name: str) -> list[int]:
        """An attribute that is a list of integers."""
        return [int(i) for i in self.attributes.get(name, {}).get("list", {}).get("i", [])]

    def number(self, name: str, default: float = 0.0) -> float:
        """An attribute that is a floating-point number."""
        return float(self.attributes.get(name, {}).get("f", default))

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An attribute that is a boolean."""
        return bool(self.attributes.get(name, {}).get("b", default))

    def dtype(self, name: str, default: str = "DT_FLOAT") -> str:
        """An attribute that is an element type, by NumPy's name.

        Raises:
            UnsupportedError: The web runtime has no such type.
        """
        kind = str(self.attributes.get(name, {}).get("type", default))
        if kind not in ONNX_TYPES:
            raise self.refuse(f"its type {kind.removeprefix('DT_').lower()} can't be imported")
        return ONNX_TYPES[kind]

    def shape(self, name: str) -> list[int] | None:
        """An attribute that is a shape, -1 where it is free; None where the rank is unknown."""
        found = self.attributes.get(name, {}).get("shape")
        return None if found is None or found.get("unknownRank") else dims(found)


def dims(shape: Mapping[str, Any]) -> list[int]:
    """The extents of a shape as JSON has it; -1 where one is free."""
    return [int(dim.get("size", 0)) for dim in shape.get("dim", ())]


def parse(entries: Sequence[Mapping[str, Any]]) -> dict[str, Node]:
    """Nodes by name; edges that only order execution are left out.

    Raises:
        NotAModelError: An entry isn't a node.
    """
    nodes = {}
    try:
        for entry in entries:
            inputs = [name.removesuffix(":0") for name in entry.get("input", ())]
            data = tuple(name for name in inputs if not name.startswith("^"))
            name = entry["name"]
            nodes[name] = Node(name, entry["op"], data, entry.get("attr", {}))
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAModelError("the graph", f"an entry isn't a node ({error!r})") from error
    return nodes


def ordered(nodes: Mapping[str, Node], outputs: Sequence[str]) -> list[Node]:
    """What outputs need, each node after those that it reads.

    Raises:
        NotAModelError: A node reads one that isn't there.
        UnsupportedError: A node reads its own result.
    """
    done: dict[str, Node] = {}
    under_way: set[str] = set()
    stack = [(name.partition(":")[0], "an output") for name in reversed(outputs)]
    while stack:
        name, reader = stack[-1]
        if name in done:
            stack.pop()
            continue
        node = nodes.get(name)
        if node is None:
            raise NotAModelError(f"node '{reader}'", f"it reads '{name}', which isn't there")
        missing = [i.partition(":")[0] for i in node.inputs if i.partition(":")[0] not in done]
        if missing and name in under_way:
            raise node.refuse("it reads its own result, and loops can't be imported")
        if missing:
            under_way.add(name)
            stack += [(other, name) for other in reversed(missing)]
            continue
        stack.pop()
        done[name] = node
    return list(done.values())
