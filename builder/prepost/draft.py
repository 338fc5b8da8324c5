"""Write a small ONNX graph by hand: named nodes, shared constants, described inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from builder.model import Array, Signature, TensorSpec

OPSET = 18
"""The first with an antialiased Resize; onnxruntime-web 1.30 takes up to 26."""

IR_VERSION = 10
"""The first in which a graph's inputs can carry metadata, which holds their defaults."""

DEFAULT_KEY = "onnxsite.default"
"""Metadata key of an input's default: a JSON list of numbers."""

Operand: TypeAlias = ir.Value | Array | np.generic | None
Attribute: TypeAlias = int | float | str | Sequence[int] | ir.DataType | ir.Graph


class Draft:
    """A graph in the making. Nodes run in the order in which they are added.

    Every node and value gets the name it is given, or its operator's with a running number, so a
    draft written twice is the same bytes. Constants that hold the same bytes are stored once.

    Args:
        name: Of the graph; inside an `If` also the prefix of every name in that branch.
        prefix: Put before every name.
    """

    def __init__(self, name: str, *, prefix: str = "") -> None:
        self._name, self._prefix = name, prefix
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self._counts: dict[str, int] = {}

    def input(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int | str],
        *,
        default: Sequence[float] | None = None,
        description: str | None = None,
    ) -> ir.Value:
        """Add an input.

        Args:
            name: Of the value.
            dtype: numpy's name of the element type.
            shape: A string is a symbolic dimension.
            default: What callers may leave out, flattened.
            description: One sentence for people.
        """
        value = _typed(ir.Value(name=name), dtype, shape, description)
        if default is not None:
            value.metadata_props[DEFAULT_KEY] = json.dumps([float(number) for number in default])
        self._inputs.append(value)
        return value

    def add(
        self, operator: str, *operands: Operand, name: str = "", **attributes: Attribute
    ) -> ir.Value:
        """Add a node with one output and give that.

        Args:
            operator: An operator of ai.onnx.
            operands: Values, arrays or numpy scalars (which become constants), or None for an
                input left out.
            name: Of the node and its output.
            attributes: Of the node; a graph for a branch.
        """
        return self.add_many(operator, *operands, outputs=1, name=name, **attributes)[0]

    def add_many(
        self,
        operator: str,
        *operands: Operand,
        outputs: int,
        name: str = "",
        **attributes: Attribute,
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs, named `name`, `name_1` and so on; else as `add`."""
        name = self._prefix + (name or self._numbered(operator.lower()))
        values = [ir.Value(name=f"{name}_{i}" if i else name) for i in range(outputs)]
        self._nodes.append(
            ir.node(
                operator,
                [self._operand(operand) for operand in operands],
                attributes=attributes or None,
                outputs=values,
                name=name,
            )
        )
        return tuple(values)

    def output(
        self,
        value: ir.Value,
        name: str,
        dtype: str,
        shape: Sequence[int | str],
        *,
        description: str | None = None,
    ) -> None:
        """Make a node's output an output of the graph, under a name of its own."""
        value.name = name
        self._outputs.append(_typed(value, dtype, shape, description))

    def graph(self) -> ir.Graph:
        """The graph itself: a branch of `If`, say."""
        return ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._nodes,
            initializers=list(self._constants.values()),
            opset_imports={"": OPSET},
            name=self._name,
        )

    def model(self) -> ir.Model:
        """The graph as a model."""
        return ir.Model(self.graph(), ir_version=IR_VERSION, producer_name="onnxsite")

    def _numbered(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}_{self._counts[stem]}"

    def _operand(self, operand: Operand) -> ir.Value | None:
        if operand is None or isinstance(operand, ir.Value):
            return operand
        array = np.asarray(operand)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._prefix + self._numbered("constant")
            self._constants[key] = ir.Value(
                name=name,
                type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
                shape=ir.Shape(array.shape),
                const_value=ir.tensor(array, name=name),
            )
        return self._constants[key]


def _typed(
    value: ir.Value, dtype: str, shape: Sequence[int | str], description: str | None
) -> ir.Value:
    value.type = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
    value.shape = ir.Shape(shape)
    value.doc_string = description
    return value


def signature_of(model: ir.Model) -> Signature:
    """A graph's signature with the defaults and descriptions that `Draft` put on its values."""
    plain = Signature.of(model.graph)

    def described(specs: Sequence[TensorSpec], values: Sequence[ir.Value]) -> list[TensorSpec]:
        by_name = {value.name: value for value in values}
        result = []
        for spec in specs:
            value = by_name[spec.name]
            default = value.metadata_props.get(DEFAULT_KEY)
            result.append(
                replace(
                    spec,
                    default=None if default is None else tuple(json.loads(default)),
                    description=value.doc_string or None,
                )
            )
        return result

    return Signature(
        tuple(described(plain.inputs, model.graph.inputs)),
        tuple(described(plain.outputs, model.graph.outputs)),
    )


def free_name(name: str, taken: Collection[str], prefix: str) -> str:
    """`name`, with the prefix put before it as often as it takes to be none of `taken`.

    Values flow between stages by name in one namespace, and a model's author may have used the
    name that a task would like for its own: Magika's input is called `bytes`, as is the task's.
    """
    while name in taken:
        name = prefix + name
    return name
