"""Run pre, model and post on the CPU, as the browser runs them: values flow by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from builder.errors import UsageError
from builder.model import WHOLE, Array, Model, Signature, Tensors, TensorSpec, value_of
from builder.prepost.draft import signature_of
from builder.session import Session


class Runner:
    """A pipeline with its sessions open.

    Args:
        pre: Raw inputs to model inputs, or None.
        model: The model itself, or its parts in the order in which they're run.
        post: Model outputs to results, or None.
    """

    def __init__(
        self,
        pre: ir.Model | None,
        model: ir.Model | Mapping[str, Model],
        post: ir.Model | None,
    ) -> None:
        parts = {WHOLE: model} if isinstance(model, ir.Model) else dict(model)
        stages = {"pre": pre, **parts, "post": post}
        self._signatures: dict[str, Signature] = {}
        self._sessions: dict[str, Session] = {}
        for name, stage in stages.items():
            if isinstance(stage, Model):
                self._signatures[name], graph = stage.signature, stage.ir
            elif stage is not None:
                self._signatures[name], graph = signature_of(stage), stage
            else:
                continue
            self._sessions[name] = Session(graph)
        self.interface = join(list(self._signatures.values()))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Tensors]:
        """Run every stage in order.

        Args:
            inputs: The interface's inputs; those with a default may be left out.

        Returns:
            Outputs by stage: `pre`, `model` or its parts, `post`, as far as they exist.

        Raises:
            UsageError: An input is missing.
            UnsupportedError: A stage fails.
        """
        return {name: outputs for name, (_, outputs) in self.trace(inputs).items()}

    def trace(self, inputs: Mapping[str, Array]) -> dict[str, tuple[Tensors, Tensors]]:
        """Inputs and outputs of every stage; the rest is as with `run`."""
        values = self.defaults()
        for spec in self.interface.inputs:
            if spec.name in inputs:
                values[spec.name] = np.asarray(inputs[spec.name])
            elif spec.name not in values and spec.source is None:
                raise UsageError(f"input '{spec.name}'", "it is missing and has no default")
        results = {}
        for name, session in self._sessions.items():
            fed = {spec.name: value_of(spec, values) for spec in self._signatures[name].inputs}
            outputs = session.run(fed)
            results[name] = fed, outputs
            values |= outputs
        return results

    def before(self, inputs: Mapping[str, Array]) -> Tensors:
        """What there is before the model: the inputs, defaults included, and what `pre` gives."""
        values = {**self.defaults(), **inputs}
        pre = self._sessions.get("pre")
        return {**values, **pre.run(values)} if pre is not None else values

    def defaults(self) -> Tensors:
        """Inputs of the interface that have a default."""
        values: Tensors = {}
        for spec in self.interface.inputs:
            if spec.default is not None:
                shape = [axis if isinstance(axis, int) else -1 for axis in spec.shape]
                values[spec.name] = np.array(spec.default, spec.dtype).reshape(shape)
        return values

    def results(self, inputs: Mapping[str, Array]) -> Tensors:
        """Run every stage and give the interface's outputs only."""
        values = {key: value for stage in self.run(inputs).values() for key, value in stage.items()}
        return {spec.name: values[spec.name] for spec in self.interface.outputs}


def run_stages(
    pre: ir.Model | None, model: ir.Model, post: ir.Model | None, inputs: Mapping[str, Array]
) -> dict[str, Tensors]:
    """Run a pipeline once: see `Runner.run`. For more than one run keep a `Runner`."""
    return Runner(pre, model, post).run(inputs)


def interface(pre: ir.Model | None, signature: Signature, post: ir.Model | None) -> Signature:
    """What the whole takes and gives, from the graphs around a model and its own signature."""
    stages = [signature]
    if pre is not None:
        stages.insert(0, signature_of(pre))
    if post is not None:
        stages.append(signature_of(post))
    return join(stages)


def join(stages: Sequence[Signature]) -> Signature:
    """Inputs that no earlier stage produces, and outputs that no later one consumes.

    Outputs of later stages come first: they are what the caller is after.
    """
    inputs: dict[str, TensorSpec] = {}
    produced: set[str | None] = set()
    consumed: set[str | None] = set()
    for stage in stages:
        for spec in stage.inputs:
            taken = {spec.name, spec.source} & produced
            if taken:
                consumed |= taken
            else:
                inputs.setdefault(spec.name, spec)
        produced |= {spec.name for spec in stage.outputs}
    outputs = [
        spec for stage in reversed(stages) for spec in stage.outputs if spec.name not in consumed
    ]
    return Signature(tuple(inputs.values()), tuple(outputs))
