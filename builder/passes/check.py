"""Is a graph still the one it was? Signature and outputs, compared on several shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from builder.errors import ConversionError, UnsupportedError
from builder.inputs import BATCH_EXTENT, random_inputs, resolve_dims
from builder.model import Array, Model, Signature, Tensors
from builder.session import Session
from builder.snr import snr_of

TOLERANCE = 80.0
"""dB. Sums in another order cost 110 to 130 dB on real models."""

SEED = 7
"""Of the random inputs."""

DRAWS: tuple[tuple[int, int, int], ...] = ((1, 32, 10), (2, 64, 10), (1, 32, 2))
"""Extent of symbolic batch axes, of other symbolic axes, and the limit of integers, for each draw;
the last is tried only where no other runs (an index into a short axis, say)."""


@dataclass(frozen=True)
class _Run:
    inputs: Mapping[str, Array]
    outputs: Tensors


class Checker:
    """Holds what the original graph gives, and compares candidates with it.

    Args:
        model: The original.
        probes: Inputs to run on besides the random ones, by name.

    Attributes:
        unchecked: Why outputs aren't compared, or "" if they are.
        random_outputs: Outputs that differ between two runs of the original itself.
    """

    def __init__(self, model: Model, probes: Sequence[Mapping[str, Array]] = ()) -> None:
        self._signature = model.signature
        self._runs: list[_Run] = []
        self.unchecked = ""
        self.random_outputs: frozenset[str] = frozenset()
        try:
            session = Session(model.ir)
        except UnsupportedError as error:
            self.unchecked = error.why
            return
        for inputs in probes:
            self._run(session, inputs)
        for index, inputs in enumerate(_draws(model.signature)):
            if index < len(DRAWS) - 1 or not self._runs:
                self._run(session, inputs)
        if self._runs:
            self.unchecked = ""
            first = self._runs[0]
            again = session.run(first.inputs)
            self.random_outputs = frozenset(
                name for name, array in first.outputs.items() if _differs(array, again[name])
            )

    def _run(self, session: Session, inputs: Mapping[str, Array]) -> None:
        try:
            self._runs.append(_Run(inputs, session.run(inputs)))
        except UnsupportedError as error:
            self.unchecked = error.why

    def fault(self, candidate: ir.Model) -> str:
        """What is wrong with a candidate, in a clause; "" if nothing is."""
        try:
            validate(candidate, self._signature)
            if not self._runs:
                return ""
            session = Session(candidate)
            for run in self._runs:
                got = session.run(run.inputs)
                for name, array in run.outputs.items():
                    fault = _differs(array, got[name], values=name not in self.random_outputs)
                    if fault:
                        return f"output '{name}' {fault}"
        except (ConversionError, UnsupportedError) as error:
            return error.why
        return ""


def validate(model: ir.Model, signature: Signature) -> None:
    """The post-condition of every conversion: valid by onnx's checker, signature unchanged.

    Raises:
        ConversionError: The checker, strict shape inference included, refuses the graph, or its
            signature isn't the given one.
    """
    try:
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    except Exception as error:  # C++ exceptions surface as a handful of unrelated classes
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ConversionError("graph", f"onnx's checker refuses it ({reason[0]})") from error
    found = Signature.of(model.graph)
    if found != signature:
        raise ConversionError("graph", f"its signature became {found}, and was {signature}")


def _draws(signature: Signature) -> list[Tensors]:
    defaults = resolve_dims(signature)
    drawn: list[Tensors] = []
    for batch, other, integers in DRAWS:
        dims = {n: batch if extent == BATCH_EXTENT else other for n, extent in defaults.items()}
        drawn.append(random_inputs(signature, seed=SEED, dims=dims, integers=integers))
    return drawn


def _differs(expected: Array, got: Array, *, values: bool = True) -> str:
    """How `got` differs from `expected`, in a clause; "" if it doesn't."""
    if not isinstance(expected, np.ndarray):  # sequences and maps can't cross into the web runtime
        return ""
    if got.dtype != expected.dtype:
        return f"is {got.dtype}, and was {expected.dtype}"
    if values and got.shape != expected.shape:
        return f"has shape {got.shape}, and had {expected.shape}"
    if values and (ratio := snr_of(expected, got)) < TOLERANCE:
        return f"agrees to {ratio:.0f} dB only, {TOLERANCE:.0f} are asked for"
    return ""
