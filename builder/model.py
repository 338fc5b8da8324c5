"""The model: an ONNX graph in memory with its signature and where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.errors import UnsupportedError

Array: TypeAlias = npt.NDArray[np.generic]
Tensors: TypeAlias = dict[str, Array]
"""Tensors by the names of a signature."""

WEB_DTYPES = (
    "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()
)
"""Element types that can cross into and out of the web runtime, by their numpy names."""


WHOLE = "model"
"""What the part of a model in one part is called, and so its stage."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, element type (numpy's name) and shape; a string is a symbolic dimension.

    Attributes:
        default: What callers may leave out, flattened.
        description: One sentence for people.
        vocabulary: Strings that the tensor's integers are places in; -1 is a string that isn't in
            there. A graph can't say that, so it doesn't count when signatures are compared.
        source: The output that it takes where a caller gives nothing: an earlier stage's, or that
            of the same stage's run before, which is nothing at first. Doesn't count either.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    default: tuple[float, ...] | None = None
    description: str | None = None
    vocabulary: tuple[str, ...] | None = field(default=None, compare=False)
    source: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, value: ir.Value) -> TensorSpec:
        """Read a graph input or output.

        Raises:
            UnsupportedError: No type, no rank, or an element type the web runtime can't pass.
        """
        name = value.name or ""
        if value.dtype is None or value.shape is None:
            raise UnsupportedError(
                f"value '{name}'",
                "its type or rank is unknown even after shape inference",
                "Export the model with typed inputs and outputs.",
            )
        dtype = value.dtype.name.lower()
        dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        if dtype not in WEB_DTYPES:
            raise UnsupportedError(
                f"value '{name}'",
                f"its element type {dtype} can't be passed to the web runtime",
                "Cast it to float32 inside the model.",
            )
        dims: list[int | str] = []
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, int):
                dims.append(dim)
            else:
                dims.append(str(dim.value) if dim.value is not None else f"{name}_{axis}")
        return cls(name, dtype, tuple(dims))

    def empty(self) -> Array:
        """Nothing, for an input that goes from run to run: one text with 0 tokens in it, say."""
        batch, *rest = self.shape
        shape = [1 if isinstance(batch, str) else batch]
        return np.zeros([*shape, *(0 if isinstance(n, str) else n for n in rest)], self.dtype)


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a graph, in order. No step changes it unless the recipe says so."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @classmethod
    def of(cls, graph: ir.Graph) -> Signature:
        """Read a graph's signature; initializers listed among the inputs (IR < 4) don't count."""
        inputs = [v for v in graph.inputs if v.name not in graph.initializers]
        return cls(
            tuple(TensorSpec.of(v) for v in inputs), tuple(TensorSpec.of(v) for v in graph.outputs)
        )

    def with_vocabularies(self, vocabularies: Mapping[str, tuple[str, ...]]) -> Signature:
        """The same with strings for some inputs and outputs, by name."""

        def told(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
            return tuple(replace(s, vocabulary=vocabularies.get(s.name)) for s in specs)

        return Signature(told(self.inputs), told(self.outputs))

    def with_sources(self, sources: Mapping[str, str]) -> Signature:
        """The same with sources for some inputs, by name."""
        inputs = (replace(spec, source=sources.get(spec.name, spec.source)) for spec in self.inputs)
        return Signature(tuple(inputs), self.outputs)


@dataclass(frozen=True)
class Event:
    """Something the build changed, skipped or gave up, with its reason. Nothing is silent."""

    level: Literal["info", "warning"]
    step: str
    message: str


@dataclass(frozen=True)
class Provenance:
    """Where a model came from: never a path of the building machine."""

    name: str
    sha256: str | None = None
    url: str | None = None
    revision: str | None = None


@dataclass
class Model:
    """An ONNX graph with its signature, provenance and the events of its making so far."""

    ir: ir.Model
    signature: Signature
    provenance: Provenance
    events: list[Event] = field(default_factory=list)

    def event(self, level: Literal["info", "warning"], step: str, message: str) -> None:
        """Record what happened, once."""
        event = Event(level, step, message)
        if event not in self.events:
            self.events.append(event)


@dataclass(frozen=True)
class Reference:
    """Inputs of the model stage with the outputs of the fp32 model on the CPU."""

    name: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class Verdict:
    """The result of a gate.

    Attributes:
        metric: A key of `builder.precision.metrics.METRICS`.
        value: What was measured, in the metric's unit.
        tolerance: What was asked for, in the same unit.
        passed: Whether `value` meets `tolerance`.
        reason: One sentence for people.
        max_abs_error: Largest absolute difference over all outputs and references.
        snr: Signal-to-noise ratio of the worst output in dB, capped at 200.
    """

    metric: str
    value: float
    tolerance: float
    passed: bool
    reason: str
    max_abs_error: float = 0.0
    snr: float = 200.0


def value_of(spec: TensorSpec, values: Mapping[str, Array]) -> Array:
    """What an input is given: what has its name, else its source, which may not have run yet."""
    if spec.name in values:
        return values[spec.name]
    if spec.source is not None and spec.source in values:
        return values[spec.source]
    return spec.empty()


def names(specs: Iterable[TensorSpec]) -> list[str]:
    """The names of a signature's side, in order."""
    return [spec.name for spec in specs]


def places(words: Array, vocabulary: Sequence[str]) -> Array:
    """The places of strings in a vocabulary, i64 of their shape; -1 for those that aren't in it."""
    place = {word: index for index, word in enumerate(vocabulary)}
    found = [place.get(str(word), -1) for word in np.ravel(words)]
    return np.array(found, np.int64).reshape(np.shape(words))
