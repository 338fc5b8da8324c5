"""Keras's recurrent layers with ONNX's own: gates in another order, time on the first axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.model import Array
from builder.sources.tfjs.layer import Layer
from builder.sources.tfjs.shaping import FIRST, LAST
from builder.sources.tfjs.values import Graph, Value

NAMES: Mapping[str, str] = {
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "hardsigmoid": "HardSigmoid",
    "softsign": "Softsign",
    "softplus": "Softplus",
}
"""What ONNX calls an activation; HardSigmoid has the same slope by default."""


@dataclass(frozen=True)
class Kind:
    """A kind of recurrent layer.

    Attributes:
        operator: ONNX's.
        gates: Places in Keras's order of the gates that ONNX wants, in its own order.
        activations: Keys of the configuration, in ONNX's order.
    """

    operator: str
    gates: Sequence[int]
    activations: Sequence[str]


KINDS: Mapping[str, Kind] = {
    "GRU": Kind("GRU", (0, 1, 2), ("recurrent_activation", "activation")),
    "LSTM": Kind("LSTM", (0, 3, 1, 2), ("recurrent_activation", "activation", "activation")),
    "SimpleRNN": Kind("RNN", (0,), ("activation",)),
}

DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid"}

MERGES: Mapping[str, str] = {"sum": "Add", "mul": "Mul"}


def recurrent(g: Graph, layer: Layer, x: list[Value]) -> Value:
    """A layer by itself."""
    backwards = bool(layer.config.get("go_backwards"))
    sequences = bool(layer.config.get("return_sequences"))
    name = _run(g, layer, x, backwards=backwards)
    if backwards and sequences:  # Keras gives them in the order in which it computed them
        one = g.constant([1])
        ends = (g.constant([LAST]), g.constant([FIRST]), one, g.constant([-1]))
        name = g.op("Slice", name, *ends)
    return Value(name)


def bidirectional(g: Graph, layer: Layer, x: list[Value]) -> Value:
    """Two of a kind, one of which starts at the end."""
    both = layer.inner("layer")
    told = layer.config.get("backward_layer")
    names = []
    for direction in ("forward", "backward"):
        inner = layer.inner("backward_layer") if told and direction == "backward" else both
        name = inner.name if told and direction == "backward" else f"{direction}_{both.name}"
        own = Layer(inner.kind, name, inner.config, (), layer.weights)
        names.append(_run(g, own, x, backwards=direction == "backward"))
    mode = layer.config.get("merge_mode", "concat")
    if mode == "concat":
        return Value(g.op("Concat", *names, axis=-1))
    if mode in MERGES:
        return Value(g.op(MERGES[mode], *names))
    if mode == "ave":
        return Value(g.op("Mul", g.op("Add", *names), g.constant(0.5)))
    raise layer.refuse(f"its merge mode is {mode}")


def _run(g: Graph, layer: Layer, x: list[Value], *, backwards: bool) -> str:
    """[batch, time, features] to [batch, time, units], or [batch, units] of the last step."""
    config = layer.config
    if layer.kind not in KINDS:
        raise layer.refuse("nothing is known of it inside another layer")
    if config.get("return_state") or config.get("stateful") or len(x) > 1:
        raise layer.refuse("it takes or gives states")
    kind, units = KINDS[layer.kind], int(config["units"])
    weights = [_gates(kind, layer.weight(name), units) for name in ("kernel", "recurrent_kernel")]
    inputs = [g.constant(np.ascontiguousarray(w.T[None])) for w in weights]
    if config.get("use_bias", True):
        inputs.append(g.constant(_bias(kind, layer.weight("bias"), units)))
    names = [
        str(config.get(key) or DEFAULTS[key]).replace("_", "").lower() for key in kind.activations
    ]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise layer.refuse(f"its activation {unknown[0]} can't be written")
    more: dict[str, Any] = {}
    if kind.operator == "GRU":
        more["linear_before_reset"] = int(bool(config.get("reset_after")))
    results = g.split(
        kind.operator,
        2,
        g.op("Transpose", g.plain(x[0]), perm=(1, 0, 2)),
        *inputs,
        hidden_size=units,
        direction="reverse" if backwards else "forward",
        activations=[NAMES[name] for name in names],
        **more,
    )
    if not config.get("return_sequences"):
        return g.op("Squeeze", results[1], g.constant([0]))
    steps = g.op("Squeeze", results[0], g.constant([1]))
    return g.op("Transpose", steps, perm=(1, 0, 2))


def _gates(kind: Kind, array: Array, units: int) -> Array:
    """Gates along the last axis, in ONNX's order."""
    parts = [array[..., at * units : (at + 1) * units] for at in kind.gates]
    return np.concatenate(parts, axis=-1)


def _bias(kind: Kind, array: Array, units: int) -> Array:
    """The biases of input and state, f32[1, 2 * gates * units]; Keras may have the first alone."""
    rows = array if array.ndim == 2 else np.stack([array, np.zeros_like(array)])
    return np.ascontiguousarray(_gates(kind, rows, units).reshape(1, -1))
