"""Seeded random inputs for a signature: what a graph is run on when nothing better is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from builder.model import Array, Signature, Tensors, TensorSpec

BATCH_EXTENT = 1
"""Extent of a symbolic first axis: nearly always the batch."""

OTHER_EXTENT = 32
"""Extent of any other symbolic axis: a multiple of the strides that vision models ask for."""

INTEGERS = 10
"""Integers lie in [0, INTEGERS): valid as token ids, class ids and bytes."""


def random_inputs(
    signature: Signature,
    *,
    seed: int,
    dims: Mapping[str, int] | None = None,
    integers: int = INTEGERS,
) -> Tensors:
    """Draw inputs, the same ones for the same arguments on every machine.

    Floats are standard normal; integers uniform in [0, `integers`), or among the places of a
    vocabulary; booleans fair coins. An integer input with "mask" in its name is all ones (nothing
    masked), and an input with a default takes it.
    A symbolic dimension has the same extent wherever its name stands.

    Args:
        signature: Names, dtypes and shapes.
        seed: Of numpy's PCG64; each input draws from a stream of its own, so that adding an input
            doesn't change the others.
        dims: Extents of symbolic dimensions. One that isn't named here is 1 where it first stands
            as a first axis, else 32.
        integers: Upper limit of integers, exclusive.

    Returns:
        One array for each input, in order.
    """
    extents = resolve_dims(signature, dims)
    return {
        spec.name: _draw(spec, extents, np.random.default_rng([seed, index]), integers)
        for index, spec in enumerate(signature.inputs)
    }


def resolve_dims(signature: Signature, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """An extent for each symbolic dimension of the inputs; `dims` goes before the defaults."""
    extents: dict[str, int] = {}
    for spec in signature.inputs:
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, str) and dim not in extents:
                default = BATCH_EXTENT if axis == 0 else OTHER_EXTENT
                extents[dim] = (dims or {}).get(dim, default)
    return extents


def _draw(
    spec: TensorSpec, extents: Mapping[str, int], rng: np.random.Generator, integers: int
) -> Array:
    shape = tuple(extents[dim] if isinstance(dim, str) else dim for dim in spec.shape)
    dtype = np.dtype(spec.dtype)
    if spec.default is not None:
        if len(spec.default) == 1:
            return np.full(shape, spec.default[0], dtype)
        return np.asarray(spec.default, dtype).reshape(shape)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if spec.vocabulary is not None:
        return rng.integers(0, len(spec.vocabulary), shape).astype(dtype)
    if "mask" in spec.name.lower():
        return np.ones(shape, dtype)
    return rng.integers(0, integers, shape).astype(dtype)
