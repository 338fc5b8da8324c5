"""Blocks of 4-bit weights: how they are rounded, and how onnxruntime wants them packed.

A weight W [K, N] is cut along K into blocks of 32 (`BLOCK`). Each block of each output has an fp16
scale and a zero point of 4 bits: w = (level - zero) * scale, levels 0 to 15. Layout: see
`MatMulNBits` and `GatherBlockQuantized` in onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from builder.precision.compensate import Float, compensated

BLOCK = 32
"""Weights that share a scale: 4 + 16/32 + 4/32 bits each."""

HIGHEST = 15
"""Of the levels."""

SHRINK = tuple(1 - 0.05 * step for step in range(9))
"""Ranges of a block that are tried, as shares of the whole: clipping its ends makes finer steps."""


@dataclass(frozen=True)
class Blocks:
    """A weight [K, N] in 4 bits, N outputs of K inputs in ceil(K / 32) blocks.

    Attributes:
        levels: uint8 [N, blocks, 16]: two levels a byte, the earlier one in the low half.
        scales: float16 [N, blocks].
        zeros: uint8 [N, ceil(blocks / 2)]: two zero points a byte.
        inputs: K.
    """

    levels: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float16]
    zeros: npt.NDArray[np.uint8]
    inputs: int

    @property
    def dense(self) -> Float:
        """The weight that it stands for, float32 [K, N]."""
        outputs, blocks = self.scales.shape
        levels = _unpack(self.levels.reshape(outputs, -1)).reshape(outputs, blocks, BLOCK)
        zeros = _unpack(self.zeros)[:, :blocks, None]
        dense = (levels.astype(np.float32) - zeros) * self.scales.astype(np.float32)[..., None]
        return np.ascontiguousarray(dense.reshape(outputs, -1)[:, : self.inputs].T)


def round_blocks(weight: Float, gram: Float | None, importance: Float | None = None) -> Blocks:
    """Round to 4 bits with compensation; see `builder.precision.compensate`.

    Args:
        weight: float32 [K, N], finite.
        gram: X'X of the rows that it is multiplied with, float32 [K, K], or None.
        importance: float32 [K]: what the squared error of each input weighs while the scale of a
            block is chosen; None for all alike.
    """
    inputs, outputs = weight.shape
    blocks = -(-inputs // BLOCK)
    scales = np.ones((outputs, blocks), np.float16)
    zeros = np.zeros((outputs, blocks), np.uint8)
    levels = np.zeros((outputs, blocks * BLOCK), np.uint8)
    weighed = np.ones(inputs, np.float32) if importance is None else importance
    state: dict[str, Float] = {}

    def rounder(k: int, rows: Float) -> Float:
        block = k // BLOCK
        if k % BLOCK == 0:
            scale, zero = _fit(rows[:BLOCK], weighed[k : k + BLOCK])
            scales[:, block], zeros[:, block] = scale, zero
            state["scale"] = scales[:, block].astype(np.float32)
            state["zero"] = zero.astype(np.float32)
        level = np.clip(np.rint(rows[0] / state["scale"]) + state["zero"], 0, HIGHEST)
        levels[:, k] = level
        return np.asarray((level - state["zero"]) * state["scale"], np.float32)

    compensated(weight, gram, rounder)
    # What pads the last block is never read; its level is the zero point all the same.
    if inputs % BLOCK:
        levels[:, inputs:] = zeros[:, -1:]
    return Blocks(_pack(levels).reshape(outputs, blocks, BLOCK // 2), scales, _pack(zeros), inputs)


def _fit(block: Float, importance: Float) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]]:
    """Scale and zero point of each output with the least weighed squared error.

    Args:
        block: float32 [k, N].
        importance: float32 [k].
    """
    low, high = np.minimum(block.min(axis=0), 0), np.maximum(block.max(axis=0), 0)
    best_scale = np.ones(block.shape[1], np.float32)
    best_zero = np.zeros(block.shape[1], np.float32)
    least = np.full(block.shape[1], np.inf)
    # fp16 as it will be stored; never 0, and never denormal, which a GPU may flush.
    smallest = np.float32(2.0**-14)
    for share in SHRINK:
        scale = np.maximum((high - low) * share / HIGHEST, smallest)
        scale = np.minimum(scale, 65504.0).astype(np.float16).astype(np.float32)
        zero = np.clip(np.rint(-low * share / scale), 0, HIGHEST)
        level = np.clip(np.rint(block / scale) + zero, 0, HIGHEST)
        error = importance @ np.square((level - zero) * scale - block)
        better = error < least
        best_scale = np.where(better, scale, best_scale)
        best_zero = np.where(better, zero, best_zero)
        least = np.where(better, error, least)
    return best_scale.astype(np.float16), best_zero.astype(np.uint8)


def _pack(levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two to a byte along the last axis, the earlier one in the low half."""
    if levels.shape[-1] % 2:
        levels = np.pad(levels, ((0, 0), (0, 1)))
    return np.asarray(levels[:, ::2] | (levels[:, 1::2] << 4), np.uint8)


def _unpack(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
