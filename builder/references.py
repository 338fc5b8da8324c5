"""Make the references that everything is judged against: inputs with fp32 outputs on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from builder.bundle.bundle import BuiltReference
from builder.model import Model, Reference, Signature, Tensors, names
from builder.session import Session
from builder.tasks import Runner, Stages

SEED = 20
"""Of everything random in a build: crops, noise, inputs of unknown tasks."""

PROBES = 3
"""How many samples get a small reference of their own, for the self-test in the browser."""


def for_gate(model: Model, stages: Stages, decoded: Sequence[Tensors]) -> list[Reference]:
    """What the accuracy gate measures on: many real inputs, as the model stage sees them.

    Args:
        model: The fp32 model as it was imported, before any pass.
        stages: What the task puts around it.
        decoded: The recipe's samples as raw inputs.
    """
    runner = Runner(stages.pre, model.ir, stages.post)
    references = []
    for index, raw in enumerate(stages.evaluation(decoded, SEED)):
        results = runner.run(raw)
        values = {**raw, **results.get("pre", {})}
        inputs = {name: values[name] for name in names(model.signature.inputs)}
        references.append(Reference(f"reference {index + 1}", inputs, results["model"]))
    return references


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


def run_model(session: Session, reference: Reference) -> Tensors:
    """A variant's outputs for a reference."""
    return session.run(reference.inputs, list(reference.outputs))


def _bytes(reference: BuiltReference) -> int:
    return sum(array.nbytes for array in reference.inputs.values())
