"""Pack reference tensors into one little-endian file that a browser can map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from builder.bundle.store import Store
from builder.model import Array

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

ALIGNMENT = 8
"""Bytes: the largest element that a typed array is laid over."""


def store_reference(
    name: str,
    inputs: Mapping[str, Array],
    stages: Sequence[tuple[str, Mapping[str, Array]]],
    store: Store,
) -> types.Reference:
    """Store the interface's inputs and every stage's outputs.

    Args:
        name: Shown to visitors in the self-test.
        inputs: By interface input name.
        stages: (stage name, outputs by name) in the order in which they ran.
        store: Where the file goes.
    """
    content = bytearray()

    def put(tensors: Mapping[str, Array]) -> list[types.StoredTensor]:
        entries: list[types.StoredTensor] = []
        for key, array in tensors.items():
            little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            content.extend(b"\0" * (-len(content) % ALIGNMENT))
            entries.append(
                {
                    "name": key,
                    "dtype": cast("types.DType", array.dtype.name),
                    "shape": list(array.shape),
                    "offset": len(content),
                    "size": little.nbytes,
                }
            )
            content.extend(little.tobytes())
        return entries

    stored_inputs = put(inputs)
    stored_stages: list[types.StageReference] = [
        {"stage": stage, "outputs": put(outputs)} for stage, outputs in stages
    ]
    return {
        "name": name,
        "file": store.add(bytes(content), ".bin"),
        "inputs": stored_inputs,
        "stages": stored_stages,
    }
