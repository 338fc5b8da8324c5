"""What prepares columns: scaling, filling in, picking, and categories to numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from builder.model import Array
from builder.sources.onnx_ml.emitter import BOOL, FLOAT, INT64, Emitter

NORMS: dict[str, Callable[[Emitter, str], str]] = {
    "MAX": lambda e, x: e.reduce("ReduceMax", x),
    "L1": lambda e, x: e.reduce("ReduceL1", x),
    "L2": lambda e, x: e.reduce("ReduceL2", x),
}
"""What Normalizer divides a row by."""


def scaler(e: Emitter) -> None:
    """(x - offset) * scale."""
    x = e.cast(e.node.input[0], FLOAT)
    shifted = e.op("Sub", x, e.constant(e.floats("offset")))
    e.op("Mul", shifted, e.constant(e.floats("scale")), to=e.node.output[0])


def normalizer(e: Emitter) -> None:
    """Every row divided by its norm; rows of zeros stay."""
    x = e.cast(e.node.input[0], FLOAT)
    norm = NORMS[e.text("norm", "MAX")](e, x)
    none = e.op("Equal", norm, e.constant(0.0))
    e.op("Div", x, e.op("Where", none, e.constant(1.0), norm), to=e.node.output[0])


def binarizer(e: Emitter) -> None:
    """1 above the threshold, else 0."""
    x = e.cast(e.node.input[0], FLOAT)
    above = e.op("Greater", x, e.constant(float(e.value("threshold", 0.0))))
    e.cast(above, FLOAT, to=e.node.output[0])


def imputer(e: Emitter) -> None:
    """One value replaced, column by column: NaN above all."""
    whole = e.integers("imputed_value_int64s")
    x = e.node.input[0]
    if len(whole):
        missing = e.op("Equal", x, e.constant(int(e.value("replaced_value_int64", 0))))
        filling = e.constant(whole)
    else:
        x = e.cast(x, FLOAT)
        replaced = float(e.value("replaced_value_float", 0.0))
        missing = e.op("IsNaN", x) if np.isnan(replaced) else e.op("Equal", x, e.constant(replaced))
        filling = e.constant(e.floats("imputed_value_floats"))
    e.op("Where", missing, filling, x, to=e.node.output[0])


def array_feature_extractor(e: Emitter) -> None:
    """Columns by their indices."""
    x, index = e.node.input
    flat = e.op("Reshape", index, e.constant([-1]))
    e.op("Gather", x, flat, axis=-1, to=e.node.output[0])


def feature_vectorizer(e: Emitter) -> None:
    """All columns side by side."""
    widths = e.integers("inputdimensions")
    parts = [
        e.op("Reshape", e.cast(name, FLOAT), e.constant([-1, int(width)]))
        for name, width in zip(e.node.input, widths, strict=True)
    ]
    e.op("Concat", *parts, axis=1, to=e.node.output[0])


def one_hot_encoder(e: Emitter) -> None:
    """[…] to f32[…, categories]: 1 at the category, all 0 for an unknown one."""
    known = e.integers("cats_int64s")
    x = e.op("Unsqueeze", e.cast(e.node.input[0], INT64), e.constant([-1]))
    e.cast(e.op("Equal", x, e.constant(known)), FLOAT, to=e.node.output[0])


def label_encoder(e: Emitter) -> None:
    """Keys to values, and what isn't among the keys to the default."""
    keys, values, default = _table(e)
    x = e.op("Unsqueeze", e.node.input[0], e.constant([-1]))
    same = e.op("Equal", x, e.constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = e.op("And", e.op("IsNaN", x), e.constant(np.isnan(keys)))
        same = e.op("Or", same, both)
    hits = e.cast(same, INT64)
    found = e.op("Gather", e.constant(values), e.op("ArgMax", hits, axis=-1, keepdims=0), axis=0)
    any_ = e.cast(e.reduce("ReduceMax", hits, keepdims=0), BOOL)
    e.op("Where", any_, found, e.constant(default), to=e.node.output[0])


DEFAULTS = {"int64s": -1, "floats": -0.0}
"""What the specification says of keys that aren't known, by the ending of the attribute."""


def _table(e: Emitter) -> tuple[Array, Array, Array]:
    """Keys [n], values [n] and the default []; strings are codes by now."""
    keys, values = e.tensor("keys_tensor"), e.tensor("values_tensor")
    default = e.tensor("default_tensor")
    for ending, read in (("int64s", e.integers), ("floats", e.floats)):
        given = read(f"keys_{ending}")
        keys = given if keys is None and len(given) else keys
        given = read(f"values_{ending}")
        if values is None and len(given):
            values = given
            known = e.value(f"default_{ending.removesuffix('s')}", DEFAULTS[ending])
            default = np.asarray(known, given.dtype)
    if keys is None or values is None:
        raise e.refuse("it has no table that can be read")
    if default is None:
        default = np.asarray(-1, values.dtype)
    return keys, values, default.reshape(())
