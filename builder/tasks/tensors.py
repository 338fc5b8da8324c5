"""No known task: the model's own signature, on random inputs or on the user's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from builder.errors import UnsupportedError, UsageError
from builder.inputs import random_inputs
from builder.model import WHOLE, Array, Model, Signature, Tensors, TensorSpec, places
from builder.tasks.run import Runner
from builder.tasks.task import Options, Stages, Task, parse

NAME = "tensors"

DRAWS = 16
"""Inputs for the accuracy gate: the samples, and random ones up to this number."""

PROBE_SEED = 0

LIMITS = (10, 2, 1)
"""Of random integers, exclusive; the first one that the model takes."""


class TensorOptions(Options):
    """Keys of `[models.options]`.

    Attributes:
        dims: Extents of symbolic dimensions for random inputs, by name.
        ranges: Lowest and highest value of random inputs, by input: token ids, say, or angles.
    """

    dims: dict[str, int] = Field(default={})
    ranges: dict[str, tuple[float, float]] = Field(default={})


def build(model: Model, options: Mapping[str, Any], files: Mapping[str, Path]) -> Stages:
    """No stages around the model; inputs for the gate are the samples and random draws.

    Raises:
        UsageError: Options that are unknown, wrong, or don't fit the model.
    """
    return build_parts({WHOLE: model}, options, files)


def build_parts(
    models: Mapping[str, Model], options: Mapping[str, Any], files: Mapping[str, Path]
) -> Stages:
    """The same for a model in several parts. What goes from run to run is left out of draws.

    Raises:
        UsageError: Options that are unknown, wrong, or don't fit the model.
    """
    del files
    chosen = parse(TensorOptions, options, NAME)
    runner = Runner(None, models, None)
    signature = runner.interface
    asked = Signature(tuple(s for s in signature.inputs if s.source is None), signature.outputs)
    _check(chosen, asked)

    limit = _limit(runner, asked, chosen.dims)

    def draw(seed: int) -> Tensors:
        drawn = random_inputs(asked, seed=seed, dims=chosen.dims, integers=limit)
        for index, (name, (low, high)) in enumerate(sorted(chosen.ranges.items())):
            rng = np.random.default_rng([seed, len(drawn) + index])
            drawn[name] = _uniform(rng, drawn[name], low, high)
        return drawn

    def evaluation(samples: Sequence[Tensors], seed: int) -> list[Tensors]:
        # Real inputs tell more than random ones, which only fill up.
        return [*samples, *(draw(seed + number) for number in range(DRAWS - len(samples)))]

    def probe(samples: Sequence[Tensors]) -> Tensors:
        return dict(samples[0]) if samples else draw(PROBE_SEED)

    return Stages(None, None, (), signature, lambda path: read(path, signature), evaluation, probe)


def _limit(runner: Runner, asked: Signature, dims: Mapping[str, int]) -> int:
    """The largest limit of random integers with which the model runs: some index a short axis."""
    for limit in LIMITS:
        try:
            runner.run(random_inputs(asked, seed=0, dims=dims, integers=limit))
        except UnsupportedError:
            continue
        return limit
    return LIMITS[0]  # running it will say what is wrong


def read(path: Path, signature: Signature) -> Tensors:
    """Inputs from `.npz` (arrays by input name) or, for a model with one input, `.npy`.

    Raises:
        UsageError: Not such a file, or arrays that don't fit the signature.
    """
    remedy = "Give a .npz with one array for every input, or a .npy for the only one."
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            arrays = {signature.inputs[0].name: content} if len(signature.inputs) == 1 else {}
        else:
            with content:
                arrays = {name: content[name] for name in content.files}
    except (OSError, ValueError) as error:
        raise UsageError(path.name, f"arrays can't be read from it ({error})", remedy) from error
    result = {}
    for spec in signature.inputs:
        if spec.name not in arrays:
            if spec.source is not None:
                continue
            raise UsageError(path.name, f"it has no array for input '{spec.name}'", remedy)
        result[spec.name] = _fitting(arrays[spec.name], spec, path.name)
    return result


def _fitting(array: Array, spec: TensorSpec, origin: str) -> Array:
    if spec.vocabulary is not None and array.dtype.kind == "U":
        array = places(array, spec.vocabulary)
    fits = len(array.shape) == len(spec.shape) and all(
        isinstance(wanted, str) or wanted == given
        for wanted, given in zip(spec.shape, array.shape, strict=True)
    )
    if array.dtype.name != spec.dtype or not fits:
        raise UsageError(
            f"{origin}, array '{spec.name}'",
            f"it is {array.dtype.name}{list(array.shape)}",
            f"The model takes {spec.dtype}{list(spec.shape)}.",
        )
    return array


def _check(options: TensorOptions, signature: Signature) -> None:
    symbols = {dim for spec in signature.inputs for dim in spec.shape if isinstance(dim, str)}
    names = {spec.name for spec in signature.inputs}
    for key, given, known in (("dims", options.dims, symbols), ("ranges", options.ranges, names)):
        unknown = sorted(set(given) - known)
        if unknown:
            raise UsageError(
                f"option '{key}'",
                f"the model has nothing called {', '.join(unknown)}",
                f"It has: {', '.join(sorted(known)) or 'none'}.",
            )
    for name, extent in options.dims.items():
        if extent < 1:
            raise UsageError(f"option 'dims.{name}'", f"an extent can't be {extent}")
    for name, (low, high) in options.ranges.items():
        if low > high:
            raise UsageError(f"option 'ranges.{name}'", f"{low} is above {high}")


def _uniform(rng: np.random.Generator, like: Array, low: float, high: float) -> Array:
    if like.dtype.kind == "f":
        return rng.uniform(low, high, like.shape).astype(like.dtype)
    return rng.integers(int(low), int(high), like.shape, endpoint=True).astype(like.dtype)


TASK = Task(NAME, "Any tensors", "snr", build, build_parts)
