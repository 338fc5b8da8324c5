"""A layer of Keras as JSON has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.errors import ExternalDataError, UnsupportedError
from builder.model import Array
from builder.sources.tfjs.values import Graph, Value

Key = tuple[str, int, int]
"""A tensor: the layer that gives it, which of its calls, and which of that one's results."""


@dataclass(frozen=True)
class Layer:
    """A layer.

    Attributes:
        kind: Its class.
        name: Its own.
        config: What it was made with.
        calls: What it was called on, one list for each call.
        weights: Those of the whole model.
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    calls: Sequence[Sequence[Key]]
    weights: Mapping[str, Array]

    def refuse(self, why: str, remedy: str = "") -> UnsupportedError:
        """The error for what can't be written with standard operators."""
        return UnsupportedError(f"layer '{self.name}' ({self.kind})", why, remedy)

    def has(self, *suffixes: str) -> str | None:
        """The full name of the layer's weight that is called one of these, if there is one."""
        own = re.compile(rf"{re.escape(self.name)}(_[A-Z][A-Za-z0-9]*?\d+)?")
        for name in self.weights:
            *path, last = name.split("/")
            if last in suffixes and any(own.fullmatch(part) for part in path):
                return name
        return None

    def weight(self, *suffixes: str) -> Array:
        """A weight by the last part of its name.

        Raises:
            ExternalDataError: There is none.
        """
        name = self.has(*suffixes)
        if name is None:
            raise ExternalDataError(
                f"layer '{self.name}' ({self.kind})", f"no shard holds its {suffixes[0]}"
            )
        return self.weights[name]

    def inner(self, key: str) -> Layer:
        """The layer that a wrapper holds."""
        entry = self.config[key]
        config = entry["config"]
        return Layer(entry["class_name"], config.get("name", ""), config, (), self.weights)

    def pair(self, key: str) -> tuple[int, int]:
        """Height and width of something."""
        found = self.config.get(key, 1)
        if isinstance(found, int):
            return found, found
        return (int(found[0]), int(found[-1]))

    def last_axis(self, g: Graph, x: Value) -> None:
        """Make sure that channels are last, and that the layer works along them.

        Raises:
            UnsupportedError: It doesn't.
        """
        if self.config.get("data_format") == "channels_first":
            raise self.refuse("its channels aren't the last axis")
        axis = self.config.get("axis", -1)
        axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
        if axis not in (-1, g.rank(x) - 1):
            raise self.refuse(f"it works along axis {axis}, not along the last one")
