"""Make the references that everything is judged against: inputs with fp32 outputs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.model import Array, Model, Reference, Tensors, names, value_of
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
    """What the accuracy gate of one part of a model works on.

    Attributes:
        references: Many real inputs, as the part sees them, with the fp32 outputs.
        values: For each of them, what the stage behind the model takes besides its outputs.
        calibration: Inputs that ranges and statistics are measured on; outputs are left out.
    """

    references: list[Reference]
    values: list[Tensors]
    calibration: list[Reference]


def for_gate(
    models: Mapping[str, Model],
    stages: Stages,
    decoded: Sequence[Tensors],
    calibration: Sequence[Tensors] = (),
) -> dict[str, Gate]:
    """Run everything that the gates need, one for each part of the model.

    Args:
        models: The fp32 model's parts as they were imported, before any pass.
        stages: What the task puts around it.
        decoded: The recipe's samples as raw inputs.
        calibration: Raw inputs that the recipe wants conversions to be calibrated on. Every eighth
            is held back to judge on; where there are none, the references serve for both.
    """
    runner = Runner(stages.pre, models, stages.post)
    wanted = names(signature_of(stages.post).inputs) if stages.post is not None else []
    gates = {part: Gate([], [], []) for part in models}
    held_back = calibration[::HELD_BACK]
    for index, raw in enumerate(stages.evaluation([*decoded, *held_back], SEED)):
        known = runner.before(raw)
        traced = runner.trace(raw)
        for part, gate in gates.items():
            gate.references.append(Reference(f"reference {index + 1}", *traced[part]))
            gate.values.append({name: known[name] for name in wanted if name in known})
    for index, raw in enumerate(calibration):
        if index % HELD_BACK == 0:
            continue
        traced = runner.trace(raw)
        for part, gate in gates.items():
            inputs, _ = traced[part]
            gate.calibration.append(Reference(f"calibration {index + 1}", inputs, {}))
    for gate in gates.values():
        gate.calibration.extend([] if gate.calibration else gate.references)
    return gates


def for_browser(
    models: Mapping[str, Model], stages: Stages, decoded: Sequence[Tensors], titles: Sequence[str]
) -> list[BuiltReference]:
    """What the browser checks itself on: small raw inputs with every stage's outputs.

    The first one is run on every provider before its first use, so it is the smallest.
    """
    runner = Runner(stages.pre, models, stages.post)
    groups = [[sample] for sample in decoded[:PROBES]] or [[]]
    made = []
    for group, title in zip(groups, titles or ["random inputs"], strict=False):
        inputs = stages.probe(group)
        made.append(BuiltReference(title, inputs, list(runner.run(inputs).items())))
    return sorted(made, key=_bytes)


def of_part(part: str, models: Mapping[str, Model], reference: BuiltReference) -> Reference:
    """What one part of the model has to do with a browser reference."""
    values = dict(reference.inputs)
    for stage, outputs in reference.stages:
        if stage == part:
            inputs = {spec.name: value_of(spec, values) for spec in models[part].signature.inputs}
            return Reference(reference.name, inputs, outputs)
        values |= outputs
    raise KeyError(part)


def _bytes(reference: BuiltReference) -> int:
    return sum(array.nbytes for array in reference.inputs.values())
