"""TensorFlow's operators that cut, join, turn and name the shapes of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.sources.tfjs.arithmetic import Emit, axes_of
from builder.sources.tfjs.nodes import Node
from builder.sources.tfjs.values import AXIS, BACK, TURN, Graph, Value, is_turned

LAST, FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
"""Ends of a slice that has none, forwards and backwards."""


def parts_of(value: Value) -> list[int | None] | None:
    """What a scalar or vector of integers holds, as far as it is known."""
    if value.array is not None and value.array.ndim <= 1 and value.array.dtype.kind in "iu":
        return [int(i) for i in np.ravel(value.array)]
    return value.parts


def known(parts: list[int | None] | None, otherwise: Value, *, scalar: bool = False) -> Value:
    """A constant where all parts are known, else a tensor with what is known of it."""
    if parts is not None and None not in parts:
        array = np.array(parts, np.int32)
        return Value(array=array[0] if scalar else array)
    otherwise.parts = parts
    return otherwise


def integers(g: Graph, value: Value) -> str:
    """A tensor of integers as ONNX wants shapes and indices: int64."""
    return g.plain(g.cast_to(value, "int64"))


def fixed(node: Node, value: Value, what: str) -> list[int]:
    """The integers of an input that has to be constant.

    Raises:
        UnsupportedError: It isn't.
    """
    parts = parts_of(value)
    if value.array is not None and parts is None:
        parts = [int(i) for i in np.ravel(value.array)]
    if parts is None or None in parts:
        raise node.refuse(f"its {what} aren't constant")
    return [int(part or 0) for part in parts]


def _shape(g: Graph, node: Node, x: list[Value]) -> Value:
    name = x[0].plain or x[0].turned or g.plain(x[0])
    shape = g.op("Shape", name)
    if is_turned(x[0]):
        shape = g.op("Gather", shape, g.constant(list(BACK)))
    result = g.cast_to(Value(shape), node.dtype("out_type", "DT_INT32"))
    return known(g.dims(x[0]), result)


def _size(g: Graph, node: Node, x: list[Value]) -> Value:
    size = Value(g.op("Size", x[0].plain or x[0].turned or g.plain(x[0])))
    return g.cast_to(size, node.dtype("out_type", "DT_INT32"))


def _rank(g: Graph, _node: Node, x: list[Value]) -> Value:
    return Value(array=np.array(g.rank(x[0]), np.int32))


def _reshape(g: Graph, _node: Node, x: list[Value]) -> Value:
    parts = parts_of(x[1])
    if parts is not None and [part in (None, -1) for part in parts].count(True) <= 1:
        shape = [-1 if part is None else part for part in parts]
        if x[0].array is not None:
            return Value(array=x[0].array.reshape(shape))
        return Value(g.reshaped(g.plain(x[0]), shape))
    length = g.dims(x[1])
    result = g.op("Reshape", g.plain(x[0]), integers(g, x[1]))
    return Value(g.ranked(result, int(length[0])) if length and length[0] else result)


def _expand(g: Graph, node: Node, x: list[Value]) -> Value:
    (axis,) = fixed(node, x[1], "axes")
    axis += g.rank(x[0]) + 1 if axis < 0 else 0
    if x[0].array is not None:
        return Value(array=np.expand_dims(x[0].array, axis))
    result = Value(g.op("Unsqueeze", g.plain(x[0]), g.constant([axis])))
    return known(x[0].parts, result) if g.rank(x[0]) == 0 else result


def _squeeze(g: Graph, node: Node, x: list[Value]) -> Value:
    rank = g.rank(x[0])
    axes = [a % rank for a in node.integers("squeeze_dims") or node.integers("axis")]
    axes = axes or [axis for axis, dim in enumerate(g.dims(x[0]) or ()) if dim == 1]
    if is_turned(x[0]) and set(axes) == {1, 2}:
        return Value(g.op("Squeeze", x[0].turned, g.constant([2, 3])))
    return Value(g.op("Squeeze", g.plain(x[0]), g.constant(axes)))


def _transpose(g: Graph, node: Node, x: list[Value]) -> Value:
    perm = tuple(fixed(node, x[1], "axes"))
    if perm == TURN:
        return Value(g.turned(x[0]))
    if perm == BACK and x[0].array is None:
        return Value(turned=g.plain(x[0]))
    return Value(g.op("Transpose", g.plain(x[0]), perm=perm))


def _concat(g: Graph, node: Node, x: list[Value]) -> Value:
    *parts, last = x
    (axis,) = axes_of(g, node, parts[0], last)
    if any(map(is_turned, parts)) and all(g.rank(part) == 4 for part in parts):
        return Value(turned=g.op("Concat", *map(g.turned, parts), axis=AXIS[axis]))
    joined = Value(g.op("Concat", *map(g.plain, parts), axis=axis))
    lists = [parts_of(part) for part in parts]
    if g.rank(parts[0]) != 1 or any(found is None for found in lists):
        return joined
    return known([part for found in lists for part in found or ()], joined)


def _pack(g: Graph, node: Node, x: list[Value]) -> Value:
    axis = g.constant([node.integer("axis")])
    parts = [g.op("Unsqueeze", g.plain(value), axis) for value in x]
    result = Value(g.op("Concat", *parts, axis=node.integer("axis")))
    if g.dims(x[0]) or g.dtype(x[0]).kind != "i":
        return result
    return known([(parts_of(value) or [None])[0] for value in x], result)


def _unpack(g: Graph, node: Node, x: list[Value]) -> list[Value]:
    count, axis = node.integer("num"), node.integer("axis") % g.rank(x[0])
    pieces = g.split("Split", count, g.plain(x[0]), axis=axis, num_outputs=count)
    return [Value(g.op("Squeeze", piece, g.constant([axis]))) for piece in pieces]


def _pieces(g: Graph, x: Value, axis: int, count: int, *sizes: str) -> list[Value]:
    more = {} if sizes else {"num_outputs": count}
    if is_turned(x):
        pieces = g.split("Split", count, x.turned, *sizes, axis=AXIS[axis], **more)
        return [Value(turned=piece) for piece in pieces]
    return [Value(n) for n in g.split("Split", count, g.plain(x), *sizes, axis=axis, **more)]


def _split(g: Graph, node: Node, x: list[Value]) -> list[Value]:
    (axis,) = axes_of(g, node, x[1], x[0])
    return _pieces(g, x[1], axis, node.integer("num_split"))


def _split_v(g: Graph, node: Node, x: list[Value]) -> list[Value]:
    (axis,) = axes_of(g, node, x[0], x[2])
    sizes = fixed(node, x[1], "sizes")
    total = (g.dims(x[0]) or [])[axis]
    if -1 in sizes and total is None:
        raise node.refuse("one of its sizes isn't known")
    sizes = [size if size >= 0 else int(total or 0) - sum(sizes) - 1 for size in sizes]
    return _pieces(g, x[0], axis, len(sizes), g.constant(sizes))


def _slice(g: Graph, node: Node, x: list[Value]) -> Value:
    axes = list(range(g.rank(x[0])))
    if all(value.array is not None for value in x[1:3]):
        starts, sizes = fixed(node, x[1], "starts"), fixed(node, x[2], "sizes")
        ends = [LAST if n == -1 else b + n for b, n in zip(starts, sizes, strict=True)]
        return _cut(g, x[0], {a: (starts[a], ends[a], 1) for a in axes})
    begin, size = integers(g, x[1]), integers(g, x[2])
    return Value(g.op("Slice", g.plain(x[0]), begin, g.op("Add", begin, size), g.constant(axes)))


def _cut(g: Graph, x: Value, ranges: Mapping[int, tuple[int, int, int]]) -> Value:
    """A part of a tensor: start, end and step by axis; whole axes aren't mentioned."""
    part = {axis: r for axis, r in ranges.items() if r != (0, LAST, 1)}
    if not part:
        return x
    starts, ends, steps = (g.constant([r[i] for r in part.values()]) for i in range(3))
    if is_turned(x):
        axes = g.constant([AXIS[axis] for axis in part])
        return Value(turned=g.op("Slice", x.turned, starts, ends, axes, steps))
    return Value(g.op("Slice", g.plain(x), starts, ends, g.constant(list(part)), steps))


def _strided_slice(g: Graph, node: Node, x: list[Value]) -> Value:
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: node.integer(f"{name}_mask") for name in names}
    if any(value.array is None for value in x[1:4]):
        return _moving_slice(g, node, x, any(masks.values()))
    starts, ends, steps = (fixed(node, value, "limits") for value in x[1:4])
    bits = [{n for n, mask in masks.items() if mask >> i & 1} for i in range(len(starts))]
    rank = g.rank(x[0])
    covered = sum(not b & {"ellipsis", "new_axis"} for b in bits)
    ranges: dict[int, tuple[int, int, int]] = {}
    dropped, fresh, axis, place = [], [], 0, 0
    for start, end, step, bit in zip(starts, ends, steps, bits, strict=True):
        if "ellipsis" in bit:
            axis, place = axis + rank - covered, place + rank - covered
        elif "new_axis" in bit:
            fresh.append(place)
            place += 1
        elif "shrink_axis" in bit:
            ranges[axis] = (start, LAST if start == -1 else start + 1, 1)
            dropped.append(axis)
            axis += 1
        else:
            first = start if "begin" not in bit else 0 if step > 0 else LAST
            last = end if "end" not in bit else LAST if step > 0 else FIRST
            ranges[axis] = (first, last, step)
            axis, place = axis + 1, place + 1
    cut = _cut(g, x[0], ranges)
    if dropped:
        cut = Value(g.op("Squeeze", g.plain(cut), g.constant(dropped)))
    if fresh:
        cut = Value(g.op("Unsqueeze", g.plain(cut), g.constant(fresh)))
    parts = parts_of(x[0])
    if parts is None or rank != 1 or fresh or 0 not in ranges:
        return cut
    first, last, step = ranges[0]
    taken = parts[slice(first, None if last in (LAST, FIRST) else last, step)] if step > 0 else None
    return known(taken, cut, scalar=bool(dropped))


def _moving_slice(g: Graph, node: Node, x: list[Value], masked: bool) -> Value:
    if masked or x[3].array is None:
        raise node.refuse("its limits aren't constant, and some are masked")
    axes = g.constant(list(range(len(x[3].array))))
    names = [integers(g, value) for value in x[1:4]]
    return Value(g.op("Slice", g.plain(x[0]), names[0], names[1], axes, names[2]))


def _pad(g: Graph, node: Node, x: list[Value]) -> Value:
    if x[1].array is None:
        raise node.refuse("its paddings aren't constant")
    modes = {"": "constant", "REFLECT": "reflect"}
    mode = node.text("mode")
    if mode not in modes:
        raise node.refuse(f"ONNX has no padding of the kind {mode.lower()}")
    pairs = x[1].array
    fill = [] if len(x) < 3 else [g.plain(x[2])]
    if is_turned(x[0]):
        pads = g.constant([int(i) for i in pairs[list(TURN)].T.ravel()])
        return Value(turned=g.op("Pad", x[0].turned, pads, *fill, mode=modes[mode]))
    pads = g.constant([int(i) for i in pairs.T.ravel()])
    return Value(g.op("Pad", g.plain(x[0]), pads, *fill, mode=modes[mode]))


def _tile(g: Graph, _node: Node, x: list[Value]) -> Value:
    return Value(g.op("Tile", g.plain(x[0]), integers(g, x[1])))


def _gather(g: Graph, node: Node, x: list[Value]) -> Value:
    if node.integer("batch_dims"):
        raise node.refuse("it gathers within batches")
    axis = axes_of(g, node, x[0], x[2])[0] if len(x) > 2 else 0
    parts = parts_of(x[0])
    result = Value(g.op("Gather", g.plain(x[0]), g.plain(x[1]), axis=axis))
    index = x[1].array
    if parts is None or index is None or index.ndim > 1:
        return result
    return known([parts[int(i)] for i in np.ravel(index)], result, scalar=index.ndim == 0)


def _gather_nd(g: Graph, _node: Node, x: list[Value]) -> Value:
    return Value(g.op("GatherND", g.plain(x[0]), integers(g, x[1])))


def _fill(g: Graph, _node: Node, x: list[Value]) -> Value:
    return Value(g.op("Expand", g.plain(x[1]), integers(g, x[0])))


def _broadcast(g: Graph, _node: Node, x: list[Value]) -> Value:
    return Value(g.op("Expand", g.plain(x[0]), integers(g, x[1])))


def _range(g: Graph, _node: Node, x: list[Value]) -> Value:
    if all(value.array is not None for value in x):
        limits: list[Any] = [np.ravel(np.asarray(value.array))[0] for value in x]
        return Value(array=np.arange(*limits, dtype=g.dtype(x[0])))
    return Value(g.op("Range", *map(g.plain, x)))


def _one_hot(g: Graph, node: Node, x: list[Value]) -> Value:
    indices, depth, on, off = x
    one = g.constant([0])
    values = g.op("Concat", *(g.op("Unsqueeze", g.plain(v), one) for v in (off, on)), axis=0)
    axis = node.integer("axis", -1)
    return Value(g.op("OneHot", integers(g, indices), integers(g, depth), values, axis=axis))


def _top(g: Graph, _node: Node, x: list[Value]) -> list[Value]:
    count = g.reshaped(integers(g, x[1]), [1])
    values, places = g.split("TopK", 2, g.plain(x[0]), count, axis=-1)
    return [Value(values), g.cast_to(Value(places), "int32")]


def _identity(_g: Graph, _node: Node, x: list[Value]) -> list[Value]:
    return x


def _reverse(g: Graph, node: Node, x: list[Value]) -> Value:
    return _cut(g, x[0], dict.fromkeys(axes_of(g, node, x[0], x[1]), (LAST, FIRST, -1)))


OPERATORS: Mapping[str, Emit] = {
    "BroadcastTo": _broadcast,
    "ConcatV2": _concat,
    "ExpandDims": _expand,
    "Fill": _fill,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "GatherV2": _gather,
    "Identity": _identity,
    "IdentityN": _identity,
    "MirrorPad": _pad,
    "OneHot": _one_hot,
    "Pack": _pack,
    "Pad": _pad,
    "PadV2": _pad,
    "Range": _range,
    "Rank": _rank,
    "Reshape": _reshape,
    "ReverseV2": _reverse,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Snapshot": _identity,
    "Split": _split,
    "SplitV": _split_v,
    "Squeeze": _squeeze,
    "StopGradient": _identity,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "TopKV2": _top,
    "Transpose": _transpose,
    "Unpack": _unpack,
}
"""By TensorFlow's names."""
