"""What a task is, and the checks that every task makes of its options and its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict, ValidationError

from builder.errors import UsageError
from builder.model import Model, Signature, Tensors, TensorSpec
from builder.recipe import MetricName

OptionsT = TypeVar("OptionsT", bound="Options")

Decode = Callable[[Path], Tensors]
Evaluation = Callable[[Sequence[Tensors], int], list[Tensors]]
Probe = Callable[[Sequence[Tensors]], Tensors]


class Options(BaseModel):
    """Base of a task's options: the keys of `[models.options]` in a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Stages:
    """What a task puts around one model. All tensors are raw: what the browser would hand over.

    Attributes:
        pre: Raw inputs to model inputs, or None.
        post: Model outputs to results, or None.
        labels: Class index to name; empty where there is none.
        interface: What the whole takes and gives.
        decode: A sample file to raw inputs, as the browser decodes it. Raises UsageError for a file
            of the wrong kind.
        evaluation: From decoded samples and a seed, raw inputs to measure accuracy on: the samples
            themselves first.
        probe: From decoded samples, the smallest telling raw inputs, for the self-test in the
            browser. The same every time.
    """

    pre: ir.Model | None
    post: ir.Model | None
    labels: tuple[str, ...]
    interface: Signature
    decode: Decode
    evaluation: Evaluation
    probe: Probe


@dataclass(frozen=True)
class Task:
    """A row of `builder.tasks.TASKS`.

    Attributes:
        name: As recipes and manifests have it.
        title: For people.
        metric: What the accuracy gate judges by: a key of `builder.precision.metrics.METRICS`.
        build: Model, options and fetched files (by their names in the recipe) to stages. Raises
            UsageError for options that are unknown, wrong, or don't fit the model.
        build_parts: The same for a model in several parts, by the names of those; None if the task
            is for models in one.
    """

    name: str
    title: str
    metric: MetricName
    build: Callable[[Model, Mapping[str, Any], Mapping[str, Path]], Stages]
    build_parts: (
        Callable[[Mapping[str, Model], Mapping[str, Any], Mapping[str, Path]], Stages] | None
    ) = None


def parse(kind: type[OptionsT], options: Mapping[str, Any], task: str) -> OptionsT:
    """Check a task's options.

    Raises:
        UsageError: An unknown key or a value of the wrong kind; the remedy lists the known keys.
    """
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'options'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise UsageError(
            f"options of task '{task}'", faults, f"Known keys: {', '.join(kind.model_fields)}."
        ) from error


def choose(
    specs: Sequence[TensorSpec], name: str | None, what: str, rank: int | None
) -> TensorSpec:
    """The input or output called `name`; without a name the first with the rank, if any is asked.

    Raises:
        UsageError: There is none.
    """
    for spec in specs:
        if spec.name == name or (name is None and (rank is None or len(spec.shape) == rank)):
            return spec
    shown = ", ".join(f"{spec.name} {spec.dtype}{list(spec.shape)}" for spec in specs) or "none"
    raise UsageError(
        f"{what} '{name}'" if name else what,
        f"the model has no {'such' if name else f'{rank}-dimensional'} {what.split()[-1]}",
        f"It has: {shown}. Name one in the options, or use task 'tensors'.",
    )


def need_file(files: Mapping[str, Path], key: str, why: str) -> Path:
    """A file of the recipe.

    Raises:
        UsageError: The recipe has no file of that name.
    """
    if key not in files:
        raise UsageError(
            f"file '{key}'",
            f"the recipe has no such file, and {why}",
            f"Add it under [models.files] as {key} = {{ ref = …, sha256 = … }}.",
        )
    return files[key]


def taken_names(model: Model) -> set[str]:
    """Names of the model's own inputs and outputs, which a stage must not produce or ask for."""
    return {spec.name for spec in (*model.signature.inputs, *model.signature.outputs)}
