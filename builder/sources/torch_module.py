"""A PyTorch module as the exporters need it: tensors in, a flat tuple of named tensors out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from builder.sources import process
from builder.sources.torch_spec import TorchExport

BATCHES = (1, 3)
"""Extents of a free first axis that are compared; other free axes are doubled once."""

Tensors = dict[str, torch.Tensor]
Axes = dict[str, dict[int, str]]


class Flat(torch.nn.Module):
    """Calls a module by parameter names and flattens what it returns.

    Attributes:
        names: Parameters that the arguments go to; empty where they are passed in order.
    """

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.names = tuple(names)

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors of the module's result, in order."""
        if self.names:
            result = self.module(**dict(zip(self.names, args, strict=True)))
        else:
            result = self.module(*args)
        return tuple(tensor for _, tensor in flatten(result))


class Traced:
    """A module with example inputs, ready to be exported.

    Attributes:
        flat: The module in evaluation mode.
        inputs: Example tensors by input name; no free axis is 1 long, which graph capture would
            take for fixed.
        outputs: Names of the outputs.
        axes: Free axes by input.
        output_axes: Free axes by output, where they are the inputs' own.
        notes: What was decided, for the report.

    Raises:
        TypeError: Inputs or names of the wrong kind.
    """

    def __init__(self, spec: TorchExport) -> None:
        inputs, names = _named_inputs(spec)
        self.flat = Flat(spec.module, names)
        evaluate(self.flat)
        self.notes: list[str] = []
        self.axes = _axes(spec, inputs)
        self._extents = {
            name: inputs[key].shape[axis]
            for key, axes in self.axes.items()
            for axis, name in axes.items()
        }
        wide = {name: max(extent, 2) for name, extent in self._extents.items()}
        try:
            self.inputs = self._resized(inputs, wide)
            self.run(self.inputs, [])
        except Exception as error:
            if spec.dynamic or not self.axes:
                raise
            self.notes.append(
                f"the batch is fixed: PyTorch fails with 2 ({process.first_line(error)})"
            )
            self.axes, self._extents, self.inputs = {}, {}, inputs
        self._asked = spec.extents
        self._limits = spec.limits
        self._draw = spec.draw or self._drawn
        self.outputs = _output_names(spec, self.flat, self.inputs)
        self.output_axes = self._follow()

    def run(self, inputs: Mapping[str, torch.Tensor], names: Sequence[str]) -> Tensors:
        """Run the module on copies; `names` are those of the outputs."""
        with torch.no_grad():
            results = self.flat(*(tensor.clone() for tensor in inputs.values()))
        return dict(zip(names, results, strict=False))

    def samples(self, seeds: Sequence[int]) -> Iterator[Tensors]:
        """The example, and seeded random inputs of every extent that is to be compared."""
        yield self.inputs
        firsts = self._firsts()
        sizes = [
            {name: extent}
            for name in self._extents
            for extent in self._asked.get(
                name, BATCHES if name in firsts else (2 * self._extents[name],)
            )
            if self._allows(name, extent)
        ]
        for seed in seeds:
            for size in sizes or [{}]:
                with torch.no_grad():
                    yield dict(self._draw({**self._extents, **size}, seed))

    def range_of(self, name: str) -> dict[str, int]:
        """The limits of a free axis, as graph capture takes them."""
        low, high = self._limits.get(name, (0, None))
        return {key: value for key, value in (("min", low), ("max", high)) if value}

    def _allows(self, name: str, extent: int) -> bool:
        low, high = self._limits.get(name, (0, None))
        return low <= extent and (high is None or extent <= high)

    def _drawn(self, extents: Mapping[str, int], seed: int) -> Tensors:
        return _random(self._resized(self.inputs, extents), seed)

    def _firsts(self) -> list[str]:
        return list(dict.fromkeys(axes[0] for axes in self.axes.values() if 0 in axes))

    def _resized(self, inputs: Mapping[str, torch.Tensor], extents: Mapping[str, int]) -> Tensors:
        """Repeat or cut along free axes until each is as long as asked for."""
        made = {}
        for key, tensor in inputs.items():
            for axis, name in self.axes.get(key, {}).items():
                index = torch.arange(extents[name]) % tensor.shape[axis]
                tensor = tensor.index_select(axis, index)
            made[key] = tensor
        return made

    def _follow(self) -> Axes:
        """Name the output axes that always are as long as a free input axis."""
        before = self.run(self.inputs, self.outputs)
        found: Axes = {name: {} for name in self.outputs}
        for name in self._extents:
            old = max(self._extents[name], 2)
            wide = {key: max(extent, 2) for key, extent in self._extents.items()}
            try:
                after = self.run(self._resized(self.inputs, {**wide, name: old + 1}), self.outputs)
            except Exception as error:  # a height that must be a multiple of something, say
                why = process.first_line(error)
                self.notes.append(f"'{name}' isn't followed to outputs: {old + 1} fails ({why})")
                continue
            for key in self.outputs:
                pairs = zip(before[key].shape, after[key].shape, strict=False)
                found[key] |= {a: name for a, pair in enumerate(pairs) if pair == (old, old + 1)}
        return {key: axes for key, axes in found.items() if axes}


def evaluate(module: torch.nn.Module) -> None:
    """Put a module and every module below it into evaluation mode.

    A wrapper may override `train` without passing it on, so each one is set by itself.
    """
    module.eval()
    for child in module.modules():
        child.training = False


def flatten(result: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in what a module returned, each with the path of keys that leads to it."""
    if isinstance(result, torch.Tensor):
        yield name, result
    elif isinstance(result, Mapping):
        for key, value in result.items():
            yield from flatten(value, f"{name}_{key}" if name else str(key))
    elif isinstance(result, (tuple, list)):
        for index, value in enumerate(result):
            yield from flatten(value, f"{name}_{index}" if name else "")
    elif result is not None:
        raise TypeError(f"forward returns a {type(result).__name__} among its tensors")


def _named_inputs(spec: TorchExport) -> tuple[Tensors, list[str]]:
    """Example inputs by name, and the parameters they go to (empty: in order)."""
    parameters = list(inspect.signature(spec.module.forward).parameters)
    given = spec.inputs
    if isinstance(given, torch.Tensor):
        given = (given,)
    if not isinstance(given, Mapping):
        extra = [f"input_{index}" for index in range(len(given))]
        given = dict(
            zip([*parameters[: len(given)], *extra[len(parameters) :]], given, strict=True)
        )
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"example input '{name}' is a {type(tensor).__name__}, not a tensor")
    if not given:
        raise TypeError("there is no example input")
    inputs = {name: tensor.detach().cpu() for name, tensor in given.items()}
    return inputs, list(inputs) if set(inputs) <= set(parameters) else []


def _axes(spec: TorchExport, inputs: Tensors) -> Axes:
    if spec.dynamic is None:
        lengths = {tensor.shape[0] if tensor.ndim else None for tensor in inputs.values()}
        one = len(lengths) == 1 and None not in lengths
        return {name: {0: "batch"} for name in inputs} if one else {}
    for name, axes in spec.dynamic.items():
        if name not in inputs or any(not 0 <= axis < inputs[name].ndim for axis in axes):
            raise TypeError(f"dynamic names axes {list(axes)} of '{name}', which isn't so")
    return {name: dict(axes) for name, axes in spec.dynamic.items() if axes}


def _output_names(spec: TorchExport, flat: Flat, inputs: Tensors) -> list[str]:
    with torch.no_grad():
        args = [tensor.clone() for tensor in inputs.values()]
        result = (
            flat.module(**dict(zip(flat.names, args, strict=True)))
            if flat.names
            else flat.module(*args)
        )
    found = [name for name, _ in flatten(result)]
    if spec.outputs:
        if len(spec.outputs) != len(found):
            raise TypeError(f"{len(spec.outputs)} output names are given for {len(found)} tensors")
        return list(spec.outputs)
    names: list[str] = []
    for name in found:
        base = name or "output"
        taken = [*inputs, *names]
        fresh = (f"{base}_{n}" for n in range(1, len(taken) + 2))
        names.append(base if base not in taken else next(f for f in fresh if f not in taken))
    return names


def _random(like: Tensors, seed: int) -> Tensors:
    """Seeded tensors of the same shapes and dtypes; integers stay in the example's range."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, tensor in like.items():
        if tensor.is_floating_point():
            made[name] = torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        elif tensor.dtype == torch.bool:
            made[name] = torch.rand(tensor.shape, generator=generator) > 0.5
        else:
            low, high = (int(tensor.min()), int(tensor.max()) + 1) if tensor.numel() else (0, 1)
            drawn = torch.randint(low, high, tensor.shape, generator=generator)
            made[name] = drawn.to(tensor.dtype)
    return made
