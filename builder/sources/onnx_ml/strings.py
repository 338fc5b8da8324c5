"""Strings become numbers: the web runtime has none.

Every value that holds strings holds their places in a vocabulary instead, i64 with -1 for a string
that isn't in there. Values that meet in a node share a vocabulary: all strings that the graph
itself names there, sorted. Inputs and outputs keep their names and shapes, and the page turns words
into places and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from builder.errors import UnsupportedError

STRING = onnx.TensorProto.STRING

PASSING: Mapping[str, tuple[int, ...] | None] = {
    "Identity": (0,),
    "Reshape": (0,),
    "Flatten": (0,),
    "Squeeze": (0,),
    "Unsqueeze": (0,),
    "Transpose": (0,),
    "Gather": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Expand": (0,),
    "Tile": (0,),
    "ArrayFeatureExtractor": (0,),
    "Where": (1, 2),
    "Concat": None,
}
"""Operators whose outputs hold what their inputs hold, and which inputs those are; None for all."""

LABELLED = {"TreeEnsembleClassifier", "SVMClassifier", "LinearClassifier"}
"""Operators whose first output is a label, of `classlabels_strings` if they have such."""

TEXT_ADVICE = (
    "Keep the text step outside, and give the model the numbers that it makes; categories are fine."
)


class Words:
    """The strings of a graph: which values hold some, and which vocabulary each belongs to."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._parent: dict[str, str] = {}
        self._literals: dict[str, set[str]] = {}
        for end in graph.input:
            if end.type.tensor_type.elem_type == STRING:
                self._join(end.name)
        for tensor in graph.initializer:
            if tensor.data_type == STRING:
                words = numpy_helper.to_array(tensor).ravel().tolist()
                self._join(tensor.name, literals=[_text(word) for word in words])
        for node in graph.node:
            self._read(node)
        vocabularies: dict[str, set[str]] = {}
        for value, literals in self._literals.items():
            vocabularies.setdefault(self._root(value), set()).update(literals)
        self._vocabularies = {root: sorted(words) for root, words in vocabularies.items()}

    def __contains__(self, value: str) -> bool:
        return value in self._parent

    def vocabulary(self, value: str) -> list[str]:
        """The strings that a value can hold, sorted; its numbers are places in it."""
        return self._vocabularies.get(self._root(value), [])

    def codes(self, value: str, words: Sequence[str]) -> list[int]:
        """Places in the vocabulary of a value."""
        place = {word: index for index, word in enumerate(self.vocabulary(value))}
        return [place.get(word, -1) for word in words]

    def _read(self, node: onnx.NodeProto) -> None:
        """Follow strings through a node.

        Raises:
            UnsupportedError: It works on the characters of strings.
        """
        literals = {a.name: [s.decode() for s in a.strings] for a in node.attribute if a.strings}
        given = [name for name in node.input if name in self]
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.t.data_type == STRING and attribute.type == onnx.AttributeProto.TENSOR:
                    words = numpy_helper.to_array(attribute.t).ravel().tolist()
                    self._join(node.output[0], literals=[_text(word) for word in words])
        elif node.op_type in LABELLED:
            if labels := literals.get("classlabels_strings"):
                self._join(node.output[0], literals=labels)
        elif node.op_type in {"LabelEncoder", "CategoryMapper"}:
            self._read_table(node, literals, bool(given))
        elif node.op_type == "OneHotEncoder" and given:
            self._join(given[0], literals=literals.get("cats_strings", []))
        elif node.op_type in PASSING and given:
            wanted = PASSING[node.op_type]
            which = [n for i, n in enumerate(node.input) if wanted is None or i in wanted]
            self._join(*node.output, *(name for name in which if name in self))
        elif node.op_type == "Equal" and given:
            self._join(*given)
        elif given and node.op_type != "ZipMap":
            raise UnsupportedError(
                f"node '{node.name or node.output[0]}' ({node.op_type})",
                f"it works on the characters of '{given[0]}', and the web runtime has no strings",
                TEXT_ADVICE,
            )

    def _read_table(
        self, node: onnx.NodeProto, literals: Mapping[str, list[str]], given: bool
    ) -> None:
        default = next((a.s.decode() for a in node.attribute if a.name == "default_string"), None)
        mapper = node.op_type == "CategoryMapper"
        keys = literals.get("cats_strings" if mapper else "keys_strings", [])
        values = literals.get("values_strings", keys if mapper and not given else [])
        if given:
            self._join(node.input[0], literals=keys)
        if values and not (mapper and given):
            unknown = ["_Unused" if default is None else default]
            self._join(node.output[0], literals=[*values, *unknown])

    def _join(self, *values: str, literals: Sequence[str] = ()) -> None:
        for value in values:
            self._parent.setdefault(value, value)
            self._parent[self._root(value)] = self._root(values[0])
        self._literals.setdefault(values[0], set()).update(literals)

    def _root(self, value: str) -> str:
        while self._parent[value] != value:
            value = self._parent[value]
        return value


def _text(word: str | bytes) -> str:
    return word.decode() if isinstance(word, bytes) else word


def numbered(graph: onnx.GraphProto, words: Words) -> None:
    """Replace, in place, every string of the graph by its place in its vocabulary.

    Raises:
        UnsupportedError: An end of the graph holds strings that it never names.
    """
    for end in (*graph.input, *graph.output):
        if end.name in words:
            if not words.vocabulary(end.name):
                raise UnsupportedError(
                    f"value '{end.name}'",
                    "it holds strings that the graph nowhere names, so they can't be numbered",
                    TEXT_ADVICE,
                )
            end.type.tensor_type.elem_type = onnx.TensorProto.INT64
    for info in [info for info in graph.value_info if info.name in words]:
        graph.value_info.remove(info)
    for tensor in graph.initializer:
        if tensor.data_type == STRING:
            tensor.CopyFrom(_numbers(tensor, tensor.name, words))
    for node in graph.node:
        for attribute in _changed(node, words):
            kept = [a for a in node.attribute if a.name != attribute[0]]
            del node.attribute[:]
            node.attribute.extend([*kept, *attribute[1]])


def _numbers(tensor: onnx.TensorProto, value: str, words: Words) -> onnx.TensorProto:
    found = [_text(word) for word in numpy_helper.to_array(tensor).ravel().tolist()]
    codes = np.array(words.codes(value, found), np.int64).reshape(list(tensor.dims))
    return numpy_helper.from_array(codes, tensor.name)


def _changed(node: onnx.NodeProto, words: Words) -> Iterator[tuple[str, list[onnx.AttributeProto]]]:
    """Names of attributes that hold strings, with what stands in their place."""
    source = node.input[0] if node.input else ""
    for attribute in list(node.attribute):
        name, value = attribute.name, node.output[0]
        if node.op_type == "Constant" and attribute.t.data_type == STRING:
            tensor = _numbers(attribute.t, value, words)
            yield name, [helper.make_attribute("value", tensor)]
        elif name in RENAMED and attribute.strings:
            of = source if RENAMED[name][1] else value
            codes = words.codes(of, [entry.decode() for entry in attribute.strings])
            yield name, [helper.make_attribute(RENAMED[name][0], codes)]
        elif name == "default_string" and value in words:
            (code,) = words.codes(value, [attribute.s.decode()])
            yield name, [helper.make_attribute("default_int64", code)]


RENAMED = {
    "classlabels_strings": ("classlabels_int64s", False),
    "cats_strings": ("cats_int64s", True),
    "keys_strings": ("keys_int64s", True),
    "values_strings": ("values_int64s", False),
}
"""Attributes of strings: their numbers' name, and whether they are of the input."""
