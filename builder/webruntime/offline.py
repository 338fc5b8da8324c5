"""Graphs that onnxruntime has optimised while the site was built, so that a page needn't.

For WASM alone: fused operators such as `FusedConv` have a kernel there, and the optimiser works on
any machine as it does in the browser up to its level "extended" (the one above lays tensors out for
the machine that it runs on). Under WebGPU the runtime goes on optimising by itself.

Constants are folded where that costs next to nothing in bytes. Where it would put dequantized
weights in the place of stored ones, the page folds them as before (`level` "basic"), which takes
most of what is saved otherwise: the runtime's code is cold while it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import onnx_ir as ir

from builder.errors import UnsupportedError
from builder.model import Array, Signature
from builder.passes.base import constant, nodes_of, weights_of
from builder.session import Session, optimised
from builder.snr import snr_of
from builder.webruntime.support import IR_MAX, OPSET_MAX, check, operator

Level: TypeAlias = Literal["disabled", "basic"]
"""What the page's own optimiser still has to do: nothing, or to fold constants."""

MINIMUM = 80.0
"""dB against the graph as it was. Fused, it sums in another order: 110 to 130 dB are seen."""

GROWTH = 1.01
"""A graph whose download is larger than this share of the plain one's isn't worth it."""

FUSED = frozenset(
    f"com.microsoft.{name}"
    for name in (
        "BiasGelu FastGelu FusedConv FusedGemm FusedMatMul Gelu QuickGelu SkipLayerNormalization"
    ).split()
)
"""What the optimiser makes and the web runtime was seen to run on WASM in fp32."""


@dataclass(frozen=True)
class Optimised:
    """A graph for WASM, and what the page's optimiser has to do about it."""

    ir: ir.Model
    level: Level


def optimise(model: ir.Model, probes: Sequence[Mapping[str, Array]]) -> Optimised:
    """Let onnxruntime optimise a graph; the given one isn't changed.

    Args:
        model: As it is shipped, weights in memory.
        probes: Inputs on which both must agree to `MINIMUM`.

    Raises:
        UnsupportedError: The result is of no use; says why.
    """
    made = ir.from_proto(optimised(model, fold=True))
    if download(made) > GROWTH * download(model):
        made = ir.from_proto(optimised(model, fold=False))
    _tidy(made)
    _hold_against(model, made, probes)
    return Optimised(made, "basic" if _makes_weights(made) else "disabled")


def _tidy(model: ir.Model) -> None:
    """Take out what says nothing about the graph: domains that it has no operator of, notes."""
    used = {"", *(node.domain for node in nodes_of(model))}
    for domain in [domain for domain in model.opset_imports if domain not in used]:
        del model.opset_imports[domain]
    model.producer_name = model.producer_version = model.doc_string = None
    model.metadata_props.clear()


def _hold_against(plain: ir.Model, made: ir.Model, probes: Sequence[Mapping[str, Array]]) -> None:
    if Signature.of(made.graph) != Signature.of(plain.graph):
        raise UnsupportedError("graph", "its signature changed")
    if made.ir_version > IR_MAX or made.opset_imports.get("", 0) > OPSET_MAX:
        raise UnsupportedError("graph", "it became newer than the web runtime")
    check(made)
    known = FUSED | {operator(node) for node in nodes_of(plain)}
    for node in nodes_of(made):
        if node.domain and operator(node) not in known:
            raise UnsupportedError(
                "graph", f"it has {operator(node)}, which no browser was seen to run"
            )
    before, after = download(plain), download(made)
    if after > GROWTH * before:
        raise UnsupportedError("graph", f"{after} bytes would be downloaded, not {before}")
    expected, session = Session(plain, optimize="extended"), Session(made, optimize="none")
    for inputs in probes:
        wanted, given = expected.run(inputs), session.run(inputs)
        reached = min(snr_of(array, given[name]) for name, array in wanted.items())
        if reached < MINIMUM:
            raise UnsupportedError("graph", f"it reaches {reached:.1f} dB, {MINIMUM} are needed")


def download(model: ir.Model) -> int:
    """Bytes of a graph with its weights; equal ones are stored once."""
    tensors = [value.const_value for value in weights_of(model) if value.const_value is not None]
    distinct = {tensor.tobytes(): None for tensor in tensors}
    nodes = int(ir.to_proto(model).ByteSize()) - sum(tensor.nbytes for tensor in tensors)
    return nodes + sum(map(len, distinct))


def _makes_weights(model: ir.Model) -> bool:
    """Whether anything is left that is the same in every run."""
    made: set[ir.Value] = set()
    for node in model.graph:
        inputs = [value for value in node.inputs if value is not None]
        if inputs and all(constant(value) is not None or value in made for value in inputs):
            made.update(node.outputs)
    return bool(made)
