"""Write a layers model of TensorFlow.js, which is Keras's own JSON, as an ONNX graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import onnx

from builder.errors import NotAModelError, UnsupportedError
from builder.model import Array
from builder.sources import axes
from builder.sources.tfjs.files import Content
from builder.sources.tfjs.keras import LAYERS
from builder.sources.tfjs.layer import Key, Layer
from builder.sources.tfjs.values import Graph, Value

NESTED = ("Functional", "Model", "Sequential")


def convert(content: Content, name: str) -> onnx.ModelProto:
    """The graph, with inputs and outputs called like the layers that they are of.

    Raises:
        NotAModelError: The JSON isn't of a whole model.
        ExternalDataError: A layer has no weights.
        UnsupportedError: Layers that can't be written; the first error names all of them.
    """
    topology = content.topology.get("model_config", content.topology)
    try:
        model = _layers(topology, content.weights)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise NotAModelError(
            "the layers", f"their JSON isn't whole ({type(error).__name__}: {error})"
        ) from error
    unknown = sorted({layer.kind for layer in _all(model)} - {*LAYERS, *NESTED, "InputLayer"})
    if unknown:
        raise UnsupportedError(
            "the model",
            f"nothing is known of the layers {', '.join(unknown)}",
            "Give the Keras file that it was made from, if there is one.",
        )
    g = Graph()
    shapes = axes.named({layer.name: _shape(layer) for layer in model.inputs})
    given = [
        g.input(layer.name, _dtype(layer), shape)
        for layer, shape in zip(model.inputs, shapes.values(), strict=True)
    ]
    names: list[str] = []
    for layer_name, *_ in model.outputs:
        count = sum(other.split(":")[0] == layer_name for other in names)
        fresh = f"{layer_name}_{count}" if count else layer_name
        names.append(f"{fresh}_output" if fresh in shapes else fresh)
    g.reserve(names)
    results = model.run(g, given)
    for public, result in zip(names, results, strict=True):
        g.stem = public
        g.op("Identity", g.plain(result), to=public)
    return g.model(list(shapes), names, name)


@dataclass(frozen=True)
class Layers:
    """A model of layers, which may be a layer of another one.

    Attributes:
        layers: By name.
        inputs: Its inputs, in order.
        outputs: Its outputs, in order.
        parts: Models among its layers, by name.
    """

    layers: Mapping[str, Layer]
    inputs: Sequence[Layer]
    outputs: Sequence[Key]
    parts: Mapping[str, Layers]

    def run(self, g: Graph, given: Sequence[Value]) -> list[Value]:
        """Write all of it."""
        done: dict[Key, Value] = {
            (layer.name, 0, 0): value for layer, value in zip(self.inputs, given, strict=True)
        }
        for name, call in self._order():
            layer = self.layers[name]
            g.stem = name if call == 0 else f"{name}_{call}"
            taken = [done[key] for key in layer.calls[call]]
            if name in self.parts:
                made = self.parts[name].run(g, taken)
            else:
                made = [LAYERS[layer.kind](g, layer, taken)]
            done |= {(name, call, index): value for index, value in enumerate(made)}
        return [done[key] for key in self.outputs]

    def _order(self) -> list[tuple[str, int]]:
        """Calls of layers, each after those that it needs."""
        done = dict.fromkeys((layer.name, 0) for layer in self.inputs)
        first = len(done)
        stack = [key[:2] for key in reversed(self.outputs)]
        while stack:
            name, call = stack[-1]
            needed = () if stack[-1] in done else self.layers[name].calls[call]
            missing = [key[:2] for key in needed if key[:2] not in done]
            if not missing:
                done.setdefault(stack.pop())
            stack += missing
        return list(done)[first:]


def _layers(topology: Mapping[str, Any], weights: Mapping[str, Array]) -> Layers:
    config = topology["config"]
    entries = config if isinstance(config, list) else config["layers"]
    if topology["class_name"] == "Sequential":
        entries = _chained(entries)
    told = {entry.get("name") or entry["config"]["name"]: entry for entry in entries}
    calls = {n: [list(_keys(c)) for c in e.get("inbound_nodes", ())] for n, e in told.items()}
    outputs = list(_keys(config["output_layers"])) if "output_layers" in config else []
    numbers = _numbers([key for found in calls.values() for c in found for key in c] + outputs)

    def numbered(keys: Sequence[Key]) -> list[Key]:
        return [(name, numbers[name].index(call), index) for name, call, index in keys]

    layers = {
        n: Layer(e["class_name"], n, e["config"], [numbered(c) for c in calls[n]], weights)
        for n, e in told.items()
    }
    parts = {n: _layers(e, weights) for n, e in told.items() if e["class_name"] in NESTED}
    if topology["class_name"] == "Sequential":
        first, last = next(iter(layers)), list(layers)[-1]
        return Layers(layers, [layers[first]], [(last, 0, 0)], parts)
    inputs = [layers[key[0]] for key in _keys(config["input_layers"])]
    return Layers(layers, inputs, numbered(outputs), parts)


def _numbers(keys: Sequence[Key]) -> dict[str, list[int]]:
    """Numbers of the calls of each layer, in order.

    A model that is a layer was called once while it was made, which counts; so do calls of a shared
    layer in other models.
    """
    found: dict[str, set[int]] = {}
    for name, call, _ in keys:
        found.setdefault(name, set()).add(call)
    return {name: sorted(calls) for name, calls in found.items()}


def _chained(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Layers of a Sequential, each called on the one before it; the first is an input."""
    chain = [dict(entry) for entry in entries]
    if chain[0]["class_name"] != "InputLayer":
        config = chain[0]["config"]
        shape = config.get("batch_input_shape")
        if shape is None and chain[0]["class_name"] in NESTED:
            shape = _shape(_layers(chain[0], {}).inputs[0])
        name = f"{config['name']}_input"
        told = {"name": name, "batch_input_shape": shape, "dtype": config.get("dtype")}
        chain.insert(0, {"class_name": "InputLayer", "config": told})
    for before, entry in pairwise(chain):
        entry["inbound_nodes"] = [[[before["config"]["name"], 0, 0]]]
    return chain


def _keys(entry: Any) -> Iterator[Key]:
    """Tensors in what says what a layer was called on, in the forms of Keras 2 and 3."""
    if isinstance(entry, Mapping):
        if entry.get("class_name") == "__keras_tensor__":
            name, call, index = entry["config"]["keras_history"]
            yield name, int(call), int(index)
        elif "args" in entry:
            yield from _keys(entry["args"])
    elif isinstance(entry, (list, tuple)):
        if len(entry) >= 3 and isinstance(entry[0], str) and isinstance(entry[1], int):
            yield entry[0], entry[1], int(entry[2])
        else:
            for part in entry:
                yield from _keys(part)


def _all(model: Layers) -> Iterator[Layer]:
    yield from model.layers.values()
    for part in model.parts.values():
        yield from _all(part)


def _shape(layer: Layer) -> list[int | None]:
    config = layer.config
    shape = config.get("batch_input_shape") or config.get("batch_shape")
    if shape is None and config.get("input_shape"):
        shape = [None, *config["input_shape"]]
    if shape is None:
        raise layer.refuse("its shape isn't known", "Save the model with the shape of its input.")
    return list(shape)


def _dtype(layer: Layer) -> str:
    dtype = layer.config.get("dtype") or "float32"
    if dtype not in ("float32", "int32", "bool"):
        raise layer.refuse(f"its type {dtype} can't be imported")
    return str(dtype)
