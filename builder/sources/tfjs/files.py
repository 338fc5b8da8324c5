"""Read a TensorFlow.js model: `model.json` and the shards of its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from builder.errors import ExternalDataError, NotAModelError, UnsupportedError
from builder.model import Array
from builder.sources import onnx_read

MARKS = (b'"modelTopology"', b'"weightsManifest"')
"""Keys that such a file has, and no other kind of JSON."""

NAME = "model.json"
"""What it is called in a folder."""

DTYPES: Mapping[str, str] = {
    "float32": "f4",
    "float16": "f2",
    "int32": "i4",
    "uint8": "u1",
    "uint16": "u2",
    "bool": "?",
}
"""Element types as they are stored, by their names there; all are little-endian."""


@dataclass(frozen=True)
class Content:
    """What the files hold.

    Attributes:
        topology: The graph, or the layers.
        weights: By name, decoded.
        signature: Of a graph, by "inputs" and "outputs"; empty where there is none.
        sha256: Of the JSON and all shards, in order.
    """

    topology: dict[str, Any]
    weights: dict[str, Array]
    signature: dict[str, Any]
    sha256: str

    @property
    def is_graph(self) -> bool:
        """Whether it is a graph of TensorFlow's operators, and not Keras's layers."""
        return "node" in self.topology


def find(path: Path) -> Path | None:
    """The JSON of a model, if `path` is one or a folder with one."""
    file = path / NAME if path.is_dir() else path
    if file.suffix != ".json" or not file.is_file():
        return None
    content = file.read_bytes()
    return file if any(mark in content for mark in MARKS) else None


def read(path: Path, files: Mapping[str, Path]) -> Content:
    """Read everything, each shard checked before it is used.

    Args:
        path: The JSON.
        files: Fetched files; a shard that isn't beside the JSON is looked for among them.

    Raises:
        NotAModelError: It isn't whole JSON of a model.
        ExternalDataError: A shard is missing, short, or not in the model's folder.
        UnsupportedError: Weights are of a type that nothing is known of.
    """
    raw = path.read_bytes()
    hashed = hashlib.sha256(raw)
    try:
        model = json.loads(raw)
        topology = model["modelTopology"]
        groups = [(group["paths"], group["weights"]) for group in model["weightsManifest"]]
        weights = {}
        for paths, entries in groups:
            data = b"".join(_shard(path, name, files) for name in paths)
            hashed.update(data)
            weights.update(_split(data, entries))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAModelError(
            "the JSON",
            f"it's no whole model of TensorFlow.js ({type(error).__name__}: {error})",
            onnx_read.AGAIN,
        ) from error
    if not isinstance(topology, dict):
        raise NotAModelError("the JSON", "it holds weights and no topology", onnx_read.AGAIN)
    told = model.get("signature") or (model.get("userDefinedMetadata") or {}).get("signature")
    return Content(topology, weights, told or {}, hashed.hexdigest())


def _shard(path: Path, name: str, files: Mapping[str, Path]) -> bytes:
    if not onnx_read.is_inside(name):
        raise ExternalDataError(f"shard '{name}'", "it isn't in the model's folder")
    fetched = {file.name: file for file in files.values()}
    for place in (path.parent / name, files.get(name), fetched.get(Path(name).name)):
        if place is not None and place.is_file():
            return place.read_bytes()
    raise ExternalDataError(f"shard '{name}'", "it is missing", f"Put it beside {path.name}.")


def _split(data: bytes, entries: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """The weights of a group, which lie one after the other in its bytes."""
    found: dict[str, Array] = {}
    at = 0
    for entry in entries:
        name, packed = entry["name"], entry.get("quantization") or {}
        kind = packed.get("dtype", entry["dtype"])
        if kind not in DTYPES:
            raise UnsupportedError(
                f"weight '{name}'",
                f"its element type is {kind}",
                f"Types that can be read are {', '.join(DTYPES)}.",
            )
        dtype = np.dtype(DTYPES[kind]).newbyteorder("<")
        count = int(np.prod(entry["shape"], dtype=np.int64))
        end = at + count * dtype.itemsize
        if end > len(data):
            raise ExternalDataError(
                f"weight '{name}'",
                f"its shards have {len(data)} bytes, {end} are needed",
                "They were truncated: copy or download them again.",
            )
        array = np.frombuffer(data, dtype, count, at).reshape(entry["shape"])
        found[name] = _decoded(array, entry["dtype"], packed)
        at = end
    return found


def _decoded(array: Array, dtype: str, packed: Mapping[str, Any]) -> Array:
    """Weights in their own type; what is packed in 8 or 16 bits is `stored * scale + min`."""
    own = np.dtype(DTYPES.get(dtype, "f4"))
    if "scale" not in packed:
        return array.astype(own)
    scale, least = np.float32(packed["scale"]), np.float32(packed["min"])
    values = array.astype(np.float32) * scale + least
    return (np.round(values) if own.kind == "i" else values).astype(own)
