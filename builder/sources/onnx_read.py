"""Read an .onnx file and the weight files beside it, and say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from builder.errors import ExternalDataError, NotAModelError, UnsupportedError

MISTAKEN = (
    (0, b"<", "it looks like a web page: the download was answered with HTML"),
    (0, b"\x89PNG", "it's a PNG picture"),
    (0, b"\xff\xd8\xff", "it's a JPEG picture"),
    (0, b"PK\x03\x04", "it's a zip archive; PyTorch's .pt and .pth files are such"),
    (0, b"\x1f\x8b", "it's a gzip archive: unpack it"),
    (0, b"version https://git-lfs", "it's a Git LFS pointer, not the file that it stands for"),
    (0, b"\x80\x02", "it's a Python pickle"),
    (0, b"\x89HDF", "it's an HDF5 file; Keras models are such"),
    (0, b"GGUF", "it's a GGUF model"),
    (0, b"{", "it's JSON"),
    (4, b"TFL3", "it's a TensorFlow Lite model"),
    (4, b"ORTM", "it's a model in onnxruntime's own format: give the .onnx that it was made from"),
)
"""What is given by mistake: offset and bytes that tell it, and what to say."""

LARGEST = 2**31 - 1
"""Bytes: a protobuf, and so a model as onnxruntime takes it from memory, can't be larger."""

AGAIN = "Export or download it again."


def content(path: Path) -> bytes:
    """The bytes of a model file.

    Raises:
        NotAModelError: Not a file, or unreadable.
        UnsupportedError: Too large for a protobuf.
    """
    if path.is_dir():
        raise NotAModelError(str(path), "it's a folder", "Name the .onnx file inside it.")
    if not path.exists():
        raise NotAModelError(str(path), "there is no such file")
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise _too_large(path.name, size)
        return path.read_bytes()
    except OSError as error:
        raise NotAModelError(str(path), f"it can't be read ({error.strerror or error})") from error


def parse(name: str, data: bytes) -> onnx.ModelProto:
    """The protobuf in `data`; `name` is for messages.

    Raises:
        NotAModelError: It isn't a model; the reason is guessed from the first bytes.
    """
    mistaken = next(
        (what for offset, mark, what in MISTAKEN if data[offset:].startswith(mark)), None
    )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        why = "it isn't a protobuf, or it was truncated" if data else "it's empty"
        raise NotAModelError(name, mistaken or why, AGAIN) from error
    if not proto.ir_version or not proto.HasField("graph") or not proto.opset_import:
        why = mistaken or "it's empty" if not data else mistaken or "it's no whole ONNX model"
        raise NotAModelError(name, why, AGAIN)
    if not proto.graph.node:
        raise NotAModelError(name, "its graph is empty", AGAIN)
    if not proto.graph.output:
        raise NotAModelError(name, "its graph has no outputs", AGAIN)
    return proto


def load_external(path: Path, proto: onnx.ModelProto) -> None:
    """Bring weights of other files into the model, each checked before it is read.

    Raises:
        ExternalDataError: A file is missing, short, or not in the model's folder.
        UnsupportedError: All weights together are too large.
    """
    total = proto.ByteSize()
    for tensor in tensors_of(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        where = {entry.key: entry.value for entry in tensor.external_data}
        what = f"{path.name}, weight '{tensor.name}'"
        location = where.get("location", "")
        if not is_inside(location):
            raise ExternalDataError(
                what,
                f"its file '{location}' isn't in the model's folder",
                "Save the model again with its weights beside it.",
            )
        file = path.parent / location
        if not file.is_file():
            raise ExternalDataError(
                what, f"its file '{location}' is missing", "Put it beside the model."
            )
        offset, length = _extent(what, where, tensor)
        size = file.stat().st_size
        if size < offset + length:
            raise ExternalDataError(
                what,
                f"its file '{location}' has {size} bytes, {offset + length} are needed",
                "It was truncated: copy or download it again.",
            )
        total += length
        if total > LARGEST:
            raise _too_large(path.name, total)
        with file.open("rb") as stream:
            stream.seek(offset)
            tensor.raw_data = stream.read(length)
        tensor.ClearField("data_location")  # unset, as in a model that was never split
        tensor.ClearField("external_data")


def check_weights(proto: onnx.ModelProto) -> None:
    """Make sparse weights dense, and see that each weight has as many bytes as its shape needs.

    Raises:
        NotAModelError: A weight is cut short or too long.
        UnsupportedError: Its element type is unknown.
    """
    for sparse in proto.graph.sparse_initializer:
        proto.graph.initializer.append(_dense(sparse))
    proto.graph.ClearField("sparse_initializer")
    for tensor in tensors_of(proto):
        needed = _length(tensor)
        if tensor.HasField("raw_data") and len(tensor.raw_data) != needed:
            raise NotAModelError(
                f"weight '{tensor.name}'",
                f"it holds {len(tensor.raw_data)} bytes, its shape {list(tensor.dims)} needs "
                f"{needed}",
                AGAIN,
            )


def tensors_of(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor: initializers and attributes, in subgraphs and functions too."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _of_node(node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from _of_graph(attribute.g)
        for graph in attribute.graphs:
            yield from _of_graph(graph)


def is_inside(location: str) -> bool:
    """Whether a path stays below its folder, by its text: links in there are the user's own."""
    ways = (PurePosixPath(location), PureWindowsPath(location))
    return bool(location) and not any(
        way.is_absolute() or way.drive or way.root or ".." in way.parts for way in ways
    )


def _extent(what: str, where: dict[str, str], tensor: onnx.TensorProto) -> tuple[int, int]:
    """Offset and length in bytes."""
    try:
        offset = int(where.get("offset") or 0)
        length = int(where.get("length") or 0) or _length(tensor)
    except ValueError as error:
        raise ExternalDataError(what, f"its offset or length is no number ({error})") from error
    if offset < 0 or length < 0:
        raise ExternalDataError(what, f"its offset {offset} or length {length} is negative")
    return offset, length


def _length(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor's raw data; types below 8 bits are packed."""
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError) as error:
        if tensor.data_type == onnx.TensorProto.STRING:
            return 0
        raise UnsupportedError(
            f"weight '{tensor.name}'", f"its element type {tensor.data_type} is unknown"
        ) from error
    return -(-int(np.prod(tensor.dims, dtype=np.int64)) * bits // 8)


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Write a sparse weight out. Its indices are linear, or one row of coordinates each."""
    values = onnx.numpy_helper.to_array(sparse.values)
    indices = onnx.numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return onnx.numpy_helper.from_array(dense, sparse.values.name)


def _too_large(name: str, size: int) -> UnsupportedError:
    return UnsupportedError(
        name,
        f"it has {size / 1e9:.1f} GB in all, more than the {LARGEST / 1e9:.1f} GB that a model in "
        "memory can have",
        "Use a smaller model, or convert its weights to 16 bits first.",
    )
