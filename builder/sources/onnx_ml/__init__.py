"""Bring ai.onnx.ml, the operators of classical machine learning, down to standard operators.

Converters of scikit-learn, LightGBM and XGBoost write them, and the web runtime has none of them.
Each becomes a few standard nodes that compute the same (`LOWERINGS`). Strings become numbers with a
vocabulary (`strings`). `ZipMap`, which makes dictionaries, goes and leaves the tensor that it read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from builder.errors import UnsupportedError
from builder.model import Array, Tensors, places
from builder.session import Session
from builder.sources.onnx_ml import columns, linear, strings, svm, trees
from builder.sources.onnx_ml.emitter import OPSET, Emitter

DOMAIN = "ai.onnx.ml"

LOWERINGS: Mapping[str, Callable[[Emitter], None]] = {
    "ArrayFeatureExtractor": columns.array_feature_extractor,
    "Binarizer": columns.binarizer,
    "CategoryMapper": columns.label_encoder,
    "FeatureVectorizer": columns.feature_vectorizer,
    "Imputer": columns.imputer,
    "LabelEncoder": columns.label_encoder,
    "LinearClassifier": linear.classifier,
    "LinearRegressor": linear.regressor,
    "Normalizer": columns.normalizer,
    "OneHotEncoder": columns.one_hot_encoder,
    "SVMClassifier": svm.classifier,
    "SVMRegressor": svm.regressor,
    "Scaler": columns.scaler,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}

STEADY = set(
    "Abs Add ArgMax Cast Concat Div Exp Flatten Gemm Identity Log MatMul Max Min Mul Neg Pow "
    "Reshape Sigmoid Sqrt Sub Tanh Transpose".split()
)
"""Operators that have meant the same since opset 7, but for types that were added."""


@dataclass(frozen=True)
class Lowered:
    """A graph without ai.onnx.ml and strings, and how its ends correspond to the original's.

    Attributes:
        proto: The graph.
        vocabularies: Strings by the name of an input or output that holds places in them.
        zipped: Labels of the columns, by the name of an output that was a list of dictionaries.
    """

    proto: onnx.ModelProto
    vocabularies: Mapping[str, tuple[str, ...]]
    zipped: Mapping[str, tuple[int | str, ...]]


def lower(proto: onnx.ModelProto) -> Lowered:
    """Write a graph with standard operators alone; one that is so already comes back as it is.

    Raises:
        UnsupportedError: Names the node, why, and what to do.
    """
    has_strings = any(
        end.type.tensor_type.elem_type == strings.STRING
        for end in (*proto.graph.input, *proto.graph.output)
    )
    if not has_strings and all(node.domain != DOMAIN for node in proto.graph.node):
        return Lowered(proto, {}, {})
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    graph = made.graph
    opset = _opset(made)
    zipped = _unzip(graph)
    words = strings.Words(graph)
    ends = [end.name for end in (*graph.input, *graph.output) if end.name in words]
    strings.numbered(graph, words)
    _replace(graph, opset)
    imports = [entry for entry in made.opset_import if entry.domain not in ("", DOMAIN)]
    del made.opset_import[:]
    made.opset_import.extend([onnx.helper.make_opsetid("", opset), *imports])
    return Lowered(made, {name: tuple(words.vocabulary(name)) for name in ends}, zipped)


def _opset(proto: onnx.ModelProto) -> int:
    """The opset to write, not older than the graph's own.

    Raises:
        UnsupportedError: The graph's is so old that its nodes mean something else now.
    """
    declared = {entry.domain or "": entry.version for entry in proto.opset_import}
    opset = int(declared.get("", OPSET))
    if opset >= OPSET:
        return opset
    for node in proto.graph.node:
        if node.domain in ("", "ai.onnx") and node.op_type not in STEADY:
            raise UnsupportedError(
                f"node '{node.name or node.output[0]}' ({node.op_type})",
                f"opset {opset} is too old for a graph with operators of {DOMAIN}",
                "Convert the model again with target_opset=17.",
            )
    return OPSET


def _unzip(graph: onnx.GraphProto) -> dict[str, tuple[int | str, ...]]:
    """Take every ZipMap away; its output becomes a tensor."""
    found: dict[str, tuple[int | str, ...]] = {}
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        label = next((a for a in node.attribute if a.name.startswith("classlabels_")), None)
        if label is None:
            raise UnsupportedError(
                f"node '{node.name or node.output[0]}' (ZipMap)", "it names no labels"
            )
        labels = [s.decode() for s in label.strings] or list(label.ints)
        found[node.output[0]] = tuple(labels)
        node.CopyFrom(
            onnx.helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node.name)
        )
        for end in graph.output:
            if end.name == node.output[0]:
                end.CopyFrom(
                    onnx.helper.make_tensor_value_info(
                        end.name, onnx.TensorProto.FLOAT, [None, len(labels)]
                    )
                )
    return found


def _replace(graph: onnx.GraphProto, opset: int) -> None:
    """Write every node of the domain anew; a node of it that isn't known is left to be refused."""
    taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
    taken |= {tensor.name for tensor in graph.initializer} | {end.name for end in graph.input}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.domain != DOMAIN or node.op_type not in LOWERINGS:
            nodes.append(node)
            continue
        emitter = Emitter(node, opset, taken)
        LOWERINGS[node.op_type](emitter)
        nodes += emitter.nodes
        graph.initializer.extend(emitter.constants)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


class Original:
    """A session of the graph as it was given, which takes and gives what the lowered one does."""

    def __init__(self, proto: onnx.ModelProto, lowered: Lowered) -> None:
        self._session = Session(proto.SerializeToString())
        self._lowered = lowered

    def run(self, inputs: Mapping[str, Array]) -> Tensors:
        """Run once; strings are places in their vocabularies, on both sides.

        Raises:
            UnsupportedError: The run failed.
        """
        vocabularies = self._lowered.vocabularies
        feeds = {
            name: _words(array, vocabularies[name]) if name in vocabularies else array
            for name, array in inputs.items()
        }
        outputs: Tensors = {}
        for name, value in self._session.run(feeds).items():
            if name in self._lowered.zipped:
                labels = self._lowered.zipped[name]
                outputs[name] = np.array([[row[k] for k in labels] for row in value], np.float32)
            elif name in vocabularies:
                outputs[name] = places(value, vocabularies[name])
            else:
                outputs[name] = value
        return outputs


UNKNOWN = "\x00"
"""A string that no vocabulary has."""


def _words(codes: Array, vocabulary: tuple[str, ...]) -> Array:
    words = np.array([*vocabulary, UNKNOWN], object)
    return words[np.asarray(codes, np.int64)]
