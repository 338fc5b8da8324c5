"""Move the weights of a model's variants out of their graphs into shared, sharded packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from builder.bundle.store import Store, sha256
from builder.partition import Pack, plan_packs
from builder.partition.shards import Weight

if TYPE_CHECKING:
    from builder.bundle._manifest import Blob, File

PROTO_LIMIT = 2_000_000_000
"""Bytes that one file may have: protobuf's limit is 2**31, and browsers' buffers end near it."""

INLINE_BYTES = 1024
"""Weights below this stay in the graph: shape inference needs them, and an entry costs as much."""


@dataclass(frozen=True)
class Stored:
    """A graph file and the blobs that its external data points into, by logical name."""

    graph: File
    weights: list[Blob]
    largest_weight: int

    @property
    def size(self) -> int:
        """Bytes to download, uncompressed."""
        return self.graph["size"] + sum(blob["size"] for blob in self.weights)


def store_variants(variants: Mapping[str, ir.Model], store: Store) -> dict[str, Stored]:
    """Write the graphs and weights of all variants of one stage; equal weights are stored once.

    Args:
        variants: Graphs by variant name, weights in memory.
        store: Where the files go, in shards of at most its limit.
    """
    protos: dict[str, onnx.ModelProto] = {}
    contents: dict[str, bytes] = {}
    weights: dict[str, list[Weight]] = {}
    for name, model in variants.items():
        protos[name] = ir.to_proto(model)
        weights[name] = []
        for tensor in _initializers(protos[name].graph):
            _make_raw(tensor)
            size = len(tensor.raw_data)
            if size >= INLINE_BYTES:
                digest = sha256(tensor.raw_data)
                contents.setdefault(digest, tensor.raw_data)
                weights[name].append(Weight(digest, size))
                # Not held twice; the digest stands in for it until its place is known.
                tensor.raw_data = digest.encode()
                tensor.data_location = onnx.TensorProto.EXTERNAL
    packs = plan_packs(weights, store.limit)
    blobs = [_write_pack(pack, contents, store) for pack in packs]
    places = {
        placement.sha256: (blob["name"], placement.offset, placement.size)
        for pack, blob in zip(packs, blobs, strict=True)
        for placement in pack.placements
    }
    stored = {}
    for name, proto in protos.items():
        _externalise(proto, places)
        stored[name] = Stored(
            graph=store.add(proto.SerializeToString(deterministic=True), ".onnx"),
            weights=[b for p, b in zip(packs, blobs, strict=True) if name in p.users],
            largest_weight=max((weight.size for weight in weights[name]), default=0),
        )
    return stored


def _write_pack(pack: Pack, contents: Mapping[str, bytes], store: Store) -> Blob:
    content = bytearray(pack.size)
    for placement in pack.placements:
        end = placement.offset + placement.size
        content[placement.offset : end] = contents[placement.sha256]
    # Named by content: the name stands in the graph, and equal packs must give equal graphs.
    whole = bytes(content)
    return store.add_blob(whole, f"{sha256(whole)[:16]}.bin")


def _externalise(proto: onnx.ModelProto, places: Mapping[str, tuple[str, int, int]]) -> None:
    for tensor in _initializers(proto.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location, offset, length = places[tensor.raw_data.decode()]
        entries = {"location": location, "offset": offset, "length": length}
        tensor.ClearField("raw_data")
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))


def restore(
    graph: bytes, blobs: Mapping[str, bytes], location: str, limit: int = PROTO_LIMIT
) -> tuple[onnx.ModelProto, dict[str, bytes]]:
    """Put the weights of a stored variant back into its graph, where they fit.

    Args:
        graph: Of the variant, its external data pointing into `blobs`.
        blobs: The variant's weights by logical name.
        location: Name of the file of weights beside the graph if both are above `limit` bytes
            together; those after the first are `LOCATION_1`, `LOCATION_2` and so on.
        limit: Largest file in bytes; a single weight may be larger.

    Returns:
        The graph, and the content of the files beside it by name.
    """
    proto = onnx.load_model_from_string(graph)
    inside = len(graph) + sum(map(len, blobs.values())) <= limit
    chunks: list[bytearray] = []
    for tensor in _initializers(proto.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        where = {entry.key: entry.value for entry in tensor.external_data}
        start, size = int(where["offset"]), int(where["length"])
        content = memoryview(blobs[where["location"]])[start : start + size]
        tensor.ClearField("external_data")
        if inside:
            tensor.ClearField("data_location")
            tensor.raw_data = bytes(content)
            continue
        if not chunks or len(chunks[-1]) + size > limit:
            chunks.append(bytearray())
        name = location if len(chunks) == 1 else f"{location}_{len(chunks) - 1}"
        entries = {"location": name, "offset": len(chunks[-1]), "length": size}
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        chunks[-1] += content
    names = [location, *(f"{location}_{index}" for index in range(1, len(chunks)))]
    return proto, dict(zip(names, map(bytes, chunks), strict=False))


def _make_raw(tensor: onnx.TensorProto) -> None:
    """Bring typed fields (`float_data` and the like) into the one form that can be external."""
    if tensor.data_type != onnx.TensorProto.STRING and not tensor.HasField("raw_data"):
        array = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every initializer of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _initializers(attribute.g)
            for inner in attribute.graphs:
                yield from _initializers(inner)
