"""The forms that variants are shipped in: what is stored, what is computed in, and where.

Storage and compute are apart: forms of one dtype read the same bytes, so a site holds them once and
a device downloads one set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import onnx_ir as ir

from builder.model import Event
from builder.precision import dynamic, flattened, fp16, int4, int8, qdq, toeplitz
from builder.precision.emulate import emulated
from builder.precision.fp16 import Kept
from builder.precision.subject import Subject
from builder.recipe import OPT_IN, VariantName
from builder.session import Session
from builder.webruntime.support import check

Compute: TypeAlias = Literal["float32", "float16"]
Device: TypeAlias = Literal["webgpu", "wasm"]

GPU: tuple[Device, ...] = ("webgpu",)
CPU: tuple[Device, ...] = ("wasm",)
ANY: tuple[Device, ...] = ("webgpu", "wasm")

MULTIPLIED_SHARE = 0.3
"""They must be this share of a model's multiplications before computing them in 8 bits is worth
a form of its own. Counted are products with weights, and 1x1 convolutions on images on which 8 bits
pay (`builder.precision.pointwise`): 0.56 of EfficientNet-Lite0, which then takes 0.72 to 0.82 of
the time of fp32 (medians); nothing of a net whose images are large or of any size, such as
CenterFace."""


@dataclass(frozen=True)
class Converted:
    """A graph in some form.

    Attributes:
        ir: The graph.
        layers: What a retreat may keep wider: names of weights, or of nodes for fp16.
        kept: Nodes that stay in fp32 by measurement.
        events: What was done, in sentences.
    """

    ir: ir.Model
    layers: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    events: tuple[Event, ...] = ()


Convert: TypeAlias = Callable[[Subject, frozenset[str]], Converted | None]
"""From a subject and the layers to keep wider, to a graph; None where the form has no point."""


@dataclass(frozen=True)
class Form:
    """A row of `FORMS`.

    Attributes:
        dtype: What is stored.
        compute: What is computed in.
        devices: Where it may run.
        convert: How it is made. Raises ConversionError or UnsupportedError.
    """

    dtype: VariantName
    compute: Compute
    devices: tuple[Device, ...]
    convert: Convert

    @property
    def name(self) -> str:
        """`int8-wasm`: the dtype, and what sets it apart from the form for every device."""
        if self.dtype in ("fp32", "q4f16", *OPT_IN) or self.devices == ANY:
            return self.dtype
        return f"{self.dtype}-{'half' if self.compute == 'float16' else self.devices[0]}"

    def session(self, graph: ir.Model) -> Session:
        """Runs a graph of this form as its devices compute: in half, values in between are rounded
        to half and overflow, which the CPU's own run of such a graph leaves out.

        Raises:
            UnsupportedError: onnxruntime can't create a session.
        """
        return Session(emulated(graph) if self.compute == "float16" else graph)


def _fp32(subject: Subject, _: frozenset[str]) -> Converted:
    return Converted(subject.ir)


def _fp16(subject: Subject, wider: frozenset[str]) -> Converted:
    stored = fp16.store(subject.ir, subject.ranges, wider)
    return Converted(stored.ir, stored.layers, stored.kept, stored.events)


def _fp16_half(subject: Subject, wider: frozenset[str]) -> Converted:
    return _halved(subject.ir, subject, wider)


def _int8(subject: Subject, wider: frozenset[str]) -> Converted:
    made = int8.convert(subject.ir, subject.activations, subject.eighths, wider=wider)
    return Converted(made.ir, made.layers, (), made.events)


def _int8_multiplied(subject: Subject, wider: frozenset[str]) -> Converted | None:
    if subject.product_share < MULTIPLIED_SHARE:
        return None
    # What is kept wider is computed in fp32 from the same bytes: nothing more is downloaded.
    names = frozenset(subject.eighths.multiplied).difference(wider)
    made = int8.convert(subject.ir, subject.activations, subject.eighths, multiplied=names)
    counts = toeplitz.widen(made.ir), flattened.flatten(made.ir)
    said = (
        "depthwise convolutions as banded filters over the whole width on WASM",
        "1x1 convolutions in fp32 as products with a constant on the right on WASM",
    )
    told = [int8.event("int8", f"{n} {text}") for n, text in zip(counts, said, strict=True) if n]
    kept = tuple(name for name in made.layers if name in names)
    return Converted(made.ir, kept, (), (*made.events, *told))


def _int8_half(subject: Subject, wider: frozenset[str]) -> Converted:
    return _halved(_int8(subject, frozenset()).ir, subject, wider)


def _q4(subject: Subject, wider: frozenset[str]) -> Converted:
    made = int4.convert(
        subject.ir, subject.activations, subject.eighths, subject.quarters, wider=wider
    )
    return Converted(made.ir, made.layers, (), made.events)


def _q4_half(subject: Subject, wider: frozenset[str]) -> Converted:
    """The layers to keep wider are those of the storage, as for `q4`: the bytes stay shared."""
    stored = _q4(subject, wider)
    halved = _halved(stored.ir, subject, frozenset())
    return Converted(halved.ir, stored.layers, halved.kept, (*stored.events, *halved.events))


def _q8(subject: Subject, wider: frozenset[str]) -> Converted:
    made = qdq.convert(
        subject.ir,
        subject.activations,
        subject.extents,
        subject.plain_eighths,
        subject.eighths,
        wider=wider,
    )
    check(made.ir)
    return Converted(made.ir, made.layers, (), made.events)


def _uint8(subject: Subject, wider: frozenset[str]) -> Converted:
    made = dynamic.convert(
        subject.ir, subject.activations, subject.plain_eighths, subject.eighths, wider=wider
    )
    check(made.ir)
    return Converted(made.ir, made.layers, (), made.events)


def _halved(graph: ir.Model, subject: Subject, wider: frozenset[str]) -> Converted:
    halved = fp16.convert(graph, subject.ranges, wider)
    return Converted(halved.ir, halved.layers, halved.kept, halved.events)


FORMS: tuple[Form, ...] = (
    Form("fp32", "float32", ANY, _fp32),
    Form("fp16", "float32", ANY, _fp16),
    Form("fp16", "float16", GPU, _fp16_half),
    Form("int8", "float32", ANY, _int8),
    Form("int8", "float32", CPU, _int8_multiplied),
    Form("int8", "float16", GPU, _int8_half),
    Form("q4", "float32", ANY, _q4),
    Form("q4f16", "float16", GPU, _q4_half),
    Form("q8", "float32", CPU, _q8),
    Form("uint8", "float32", CPU, _uint8),
)
"""Every form. The first of each dtype is its base: where that fails, the others aren't tried."""
