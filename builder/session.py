"""Run a graph with onnxruntime on the CPU: the one place where the builder executes a model."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

import onnx
import onnx_ir as ir
import onnxruntime as ort

from builder.errors import UnsupportedError
from builder.model import Array, Tensors

THREADS = 1
"""One thread: sums are then always in the same order, so references are the same bytes."""


ABREAST = os.cpu_count() or 1
"""Runs that `each` makes at a time; every one still has a single thread."""

Level: TypeAlias = Literal["none", "extended", "all"]

LEVELS: dict[Level, ort.GraphOptimizationLevel] = {
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


class Session:
    """An onnxruntime CPU session over a graph in memory.

    Args:
        model: The graph; weights may be external or memory-mapped.
        optimize: How far onnxruntime may rewrite the graph: "extended" leaves out what suits only
            the machine that it runs on.

    Raises:
        UnsupportedError: onnxruntime can't create a session from the graph.
    """

    def __init__(self, model: ir.Model | bytes, *, optimize: Level = "all") -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 4
        options.graph_optimization_level = LEVELS[optimize]
        content = model if isinstance(model, bytes) else ir.to_proto(model).SerializeToString()
        # Runs here differ in their shapes; an arena would keep the largest of each.
        options.enable_cpu_mem_arena = False
        try:
            self._session = ort.InferenceSession(content, options, ["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a dozen unrelated classes
            raise UnsupportedError(
                "graph",
                f"onnxruntime can't run it: {str(error).strip()}",
                "Export the model with standard operators.",
            ) from error

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs, in order."""
        return [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> Tensors:
        """Run once; inputs the graph doesn't have are ignored.

        Raises:
            UnsupportedError: The run itself failed.
        """
        wanted = list(outputs or self.outputs)
        known = {value.name for value in self._session.get_inputs()}
        # Copies: onnxruntime computes running means in place, in the caller's own array.
        feeds = {name: copy(array) for name, array in inputs.items() if name in known}
        try:
            results = self._session.run(wanted, feeds)
        except Exception as error:
            raise UnsupportedError("graph", f"it fails when run: {str(error).strip()}") from error
        return dict(zip(wanted, results, strict=True))

    def each(
        self, runs: Iterable[Mapping[str, Array]], outputs: Sequence[str] | None = None
    ) -> Iterator[Tensors]:
        """Run on many inputs, on all cores; results come in order, a few at a time.

        Raises:
            UnsupportedError: A run failed.
        """
        with ThreadPoolExecutor(ABREAST) as pool:
            started: deque[Future[Tensors]] = deque()
            for inputs in runs:
                started.append(pool.submit(self.run, inputs, outputs))
                if len(started) > ABREAST:
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()


def optimised(model: ir.Model, *, fold: bool) -> onnx.ModelProto:
    """What onnxruntime makes of a graph on any machine, weights inside.

    Args:
        model: Weights in memory.
        fold: Whether constants are folded.

    Raises:
        UnsupportedError: onnxruntime can't create a session from the graph.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVELS["extended"]
    content = ir.to_proto(model).SerializeToString()
    with TemporaryDirectory(prefix="onnxsite-") as folder:
        target = Path(folder) / "optimised.onnx"
        options.optimized_model_filepath = str(target)
        try:
            ort.InferenceSession(
                content,
                options,
                ["CPUExecutionProvider"],
                disabled_optimizers=[] if fold else ["ConstantFolding"],
            )
        except Exception as error:
            raise UnsupportedError("graph", f"onnxruntime fails: {str(error).strip()}") from error
        return onnx.load(target)
