"""What a precision is judged on: a real model, real inputs, a figure that its users care for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from builder.cache import cache_dir
from builder.model import Array
from builder.precision.gate import Finish
from builder.session import Session
from builder.sources import torch_factory

Tensors: TypeAlias = Mapping[str, Array]
"""Arrays by the names of a graph's inputs."""

Floats: TypeAlias = npt.NDArray[np.float32]

Run: TypeAlias = Callable[[Tensors], dict[str, Array]]
"""Runs one variant of one graph: inputs to outputs, both by name."""

Score: TypeAlias = Callable[[Run, Run], dict[str, float]]
"""The fp32 run and a variant's run to named figures."""


@dataclass(frozen=True)
class Case:
    """A model with what its variants are calibrated and judged on.

    Attributes:
        name: Of the case, for tables.
        model: The fp32 ONNX file.
        calibration: Inputs for conversions to look at; nothing of `held_back` is among them.
        held_back: Inputs to judge on; the gate sees them only where `gate` gives them.
        score: Holds a variant's run against the fp32 run, on the held-back data.
        gate: From the fp32 run to what the gate judges on; None for every so many inputs of
            `calibration`, which conversions don't see then.
        finish: What the gate makes of outputs before a metric of results, as a stage behind the
            model would.
    """

    name: str
    model: Path
    calibration: list[Tensors]
    held_back: list[Tensors]
    score: Score
    gate: Callable[[Run], list[Tensors]] | None = None
    finish: Finish | None = None


@dataclass(frozen=True)
class Together:
    """Graphs that are shipped in one form each, and judged by what they make together.

    Attributes:
        name: For tables.
        cases: Each graph with what it is calibrated and gated on by itself.
        score: Holds a variant of each, in order, against what is true.
    """

    name: str
    cases: tuple[Case, ...]
    score: Callable[[Sequence[Run]], dict[str, float]]

    @classmethod
    def alone(cls, case: Case) -> Together:
        """One graph, scored against its fp32 run."""
        return cls(case.name, (case,), lambda runs: case.score(runner(case.model), runs[0]))


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A file that is made once, in the user's cache.

    Args:
        name: Of the file; change it when `make` changes.
        make: Writes the file to the path that it is given, on the same disk as the cache.
    """
    target = cache_dir() / "bench" / name
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
            fresh = Path(folder) / target.name
            make(fresh)
            fresh.replace(target)  # at once: a run that was stopped leaves no half of a file
    return target


def exported(name: str, source: str, files: Mapping[str, Path]) -> Path:
    """A PyTorch model as the builder imports it, before any pass; made once.

    Args:
        name: Of the file; change it when the factory changes.
        source: `package.module:factory`.
        files: What the factory is given.
    """

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as work:
            parts = torch_factory.load(
                source, base=Path(), files=files, work=Path(work), shapes={}, progress=print
            )
            (model,) = parts.models.values()
            ir.save(model.ir, path)

    return cached(name, make)


def runner(model: Path) -> Run:
    """Run a file with onnxruntime on the CPU, on one thread."""
    return Session(model.read_bytes()).run


def cosine(first: Array, second: Array) -> float:
    """Cosine of the angle between two arrays of one shape, over all their elements.

    Not finite or all zero counts as unrelated: 0.
    """
    a, b = first.astype(np.float64).ravel(), second.astype(np.float64).ravel()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if np.isfinite(norms) and norms > 0 else 0.0
