"""Make the references that everything is judged against: inputs with fp32 outputs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.model import Array, Model, Reference, Signature, Tensors, names
from builder.prepost.draft import signature_of
from builder.tasks import Runner, Stages

SEED = 20
"""Of everything random in a build: crops, noise, inputs of unknown tasks."""

HELD_BACK = 8
"""One of so many calibration inputs is judged on instead."""

PROBES = 3
"""How many samples get a small reference of their own, for the self-test in the browser."""


@dataclass(frozen=True)
class BuiltReference:
    """Interface inputs and every stage's outputs on the CPU in fp32."""

    name: str
    inputs: Mapping[str, Array]
    stages: Sequence[tuple[str, Mapping[str, Array]]]


@dataclass(frozen=True)
class Gate:
    """What the accuracy gate works on.

    Attributes:
        references: Many real inputs, as the model stage sees them, with the fp32 outputs.
        values: For each of them, what the stage behind the model takes besides its outputs.
        calibration: Inputs that ranges and statistics are measured on; outputs are left out.
    """

    references: list[Reference]
    values: list[Tensors]
    calibration: list[Reference]


def for_gate(
    model: Model, stages: Stages, decoded: Sequence[Tensors], calibration: Sequence[Tensors] = ()
) -> Gate:
    """Run everything that the gate needs.

    Args:
        model: The fp32 model as it was imported, before any pass.
        stages: What the task puts around it.
        decoded: The recipe's samples as raw inputs.
        calibration: Raw inputs that the recipe wants conversions to be calibrated on. Every eighth
            is held back to judge on; where there are none, the references serve for both.
    """
    runner = Runner(stages.pre, model.ir, stages.post)
    wanted = names(signature_of(stages.post).inputs) if stages.post is not None else []
    references, values = [], []
    held_back = calibration[::HELD_BACK]
    for index, raw in enumerate(stages.evaluation([*decoded, *held_back], SEED)):
        known = runner.before(raw)
        inputs = {name: known[name] for name in names(model.signature.inputs)}
        outputs = runner.run(raw)["model"]
        references.append(Reference(f"reference {index + 1}", inputs, outputs))
        values.append({name: known[name] for name in wanted if name in known})
    calibrating = []
    for index, raw in enumerate(calibration):
        if index % HELD_BACK == 0:
            continue
        known = runner.before(raw)
        inputs = {name: known[name] for name in names(model.signature.inputs)}
        calibrating.append(Reference(f"calibration {index + 1}", inputs, {}))
    return Gate(references, values, calibrating or references)


def for_browser(
    model: Model, stages: Stages, decoded: Sequence[Tensors], titles: Sequence[str]
) -> list[BuiltReference]:
    """What the browser checks itself on: small raw inputs with every stage's outputs.

    The first one is run on every provider before its first use, so it is the smallest.
    """
    runner = Runner(stages.pre, model.ir, stages.post)
    groups = [[sample] for sample in decoded[:PROBES]] or [[]]
    made = []
    for group, title in zip(groups, titles or ["random inputs"], strict=False):
        inputs = stages.probe(group)
        made.append(BuiltReference(title, inputs, list(runner.run(inputs).items())))
    return sorted(made, key=_bytes)


def as_model_reference(signature: Signature, reference: BuiltReference) -> Reference:
    """The model stage's part of a browser reference."""
    values = dict(reference.inputs)
    outputs: dict[str, Tensors] = {}
    for stage, produced in reference.stages:
        outputs[stage] = dict(produced)
        if stage != "model":
            values |= produced
    inputs = {name: values[name] for name in names(signature.inputs)}
    return Reference(reference.name, inputs, outputs["model"])


def _bytes(reference: BuiltReference) -> int:
    return sum(array.nbytes for array in reference.inputs.values())
