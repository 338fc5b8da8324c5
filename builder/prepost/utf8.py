"""Whether bytes are valid UTF-8, as a few nodes of an ONNX graph."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from builder.model import Array
from builder.prepost.draft import Draft

INVALID = 9
"""Stands for a byte that occurs in no UTF-8 text: C0, C1 and F5 to FF."""


def _tables() -> tuple[Array, Array, Array]:
    """By byte: length of the sequence that it begins (0: continues one), bounds of what follows.

    Table 3-7 of the Unicode Standard 16.0, "Well-Formed UTF-8 Byte Sequences".
    """
    length = np.full(256, INVALID, np.int32)
    length[0x00:0x80] = 1
    length[0x80:0xC0] = 0
    length[0xC2:0xE0] = 2
    length[0xE0:0xF0] = 3
    length[0xF0:0xF5] = 4
    low, high = np.full(256, 0x00, np.int32), np.full(256, 0xFF, np.int32)
    low[0xE0], high[0xED], low[0xF0], high[0xF4] = 0xA0, 0x9F, 0x90, 0x8F
    return length, low, high


def is_utf8(g: Draft, content: ir.Value) -> ir.Value:
    """Add nodes that tell whether `content` i32[n], values 0 to 255, is valid UTF-8: bool[1].

    A byte must continue a sequence exactly where one of the three bytes before it begins one long
    enough; a NUL put after the end finds a sequence that is cut off.
    """
    length, low, high = _tables()
    axis = np.array([0])
    bounded = g.add(
        "Concat", np.zeros(3, np.int32), content, np.zeros(1, np.int32), axis=0, name="utf8_bytes"
    )
    lengths = g.add("Gather", length, bounded, name="utf8_lengths")
    size = g.add("Shape", bounded, name="utf8_size")

    def before(steps: int, value: ir.Value, name: str) -> ir.Value:
        """The value `steps` places before each byte of the text and the NUL after it."""
        stop = g.add("Sub", size, np.array([steps]), name=f"{name}_stop")
        return g.add("Slice", value, np.array([3 - steps]), stop, axis, name=name)

    here = before(0, lengths, "utf8_here")
    continues = g.add("Equal", here, np.array(0, np.int32), name="utf8_continues")
    expected = None
    for steps in (1, 2, 3):
        lead = before(steps, lengths, f"utf8_lead_{steps}")
        reaches = g.add("Greater", lead, np.array(steps, np.int32), name=f"utf8_reach_{steps}")
        expected = (
            reaches
            if expected is None
            else g.add("Or", expected, reaches, name=f"utf8_expected_{steps}")
        )
    in_place = g.add("Equal", continues, expected, name="utf8_in_place")
    known = g.add("Less", here, np.array(INVALID, np.int32), name="utf8_known")
    lead_byte = before(1, bounded, "utf8_lead_byte")
    byte = before(0, bounded, "utf8_byte")
    lowest = g.add("Gather", low, lead_byte, name="utf8_lowest")
    highest = g.add("Gather", high, lead_byte, name="utf8_highest")
    not_low = g.add("GreaterOrEqual", byte, lowest, name="utf8_not_low")
    not_high = g.add("LessOrEqual", byte, highest, name="utf8_not_high")
    right = g.add("And", in_place, known, name="utf8_right_kind")
    bounds = g.add("And", not_low, not_high, name="utf8_bounds")
    right = g.add("And", right, bounds, name="utf8_right")
    flags = g.add("Cast", right, to=ir.DataType.INT32, name="utf8_flags")
    worst = g.add("ReduceMin", flags, keepdims=1, name="utf8_worst")
    return g.add("Cast", worst, to=ir.DataType.BOOL, name="utf8_valid")
