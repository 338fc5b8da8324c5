"""What a PyTorch factory may return where `(module, inputs)` says too little. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builder.generation import Generation

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TorchExport:
    """A module with everything its export needs.

    Attributes:
        module: Put into evaluation mode before it is exported.
        inputs: Example tensors: by name, or in the order of `forward`. If all names are parameters
            of `forward`, each goes to its own, else they are passed in order.
        outputs: Names of the outputs, in order; of a mapping's keys if left out, else `output`,
            `output_1` and so on.
        dynamic: Free axes by input, each with the name of its dimension, as in
            `{"image": {0: "batch", 2: "height", 3: "width"}}`. If left out, the first axis of every
            input is the batch, where all have the same length there. `{}` fixes all shapes.
        extents: Lengths of free axes, by the name of their dimension, that are compared with
            PyTorch one at a time; a batch of 1 and of 3 and twice the others if left out.
        draw: From an extent for each of those names and a seed, inputs to compare; random ones of
            the example's kind if left out, which a cache, say, never looks like.
        limits: Lowest and highest length of free axes, by name, where the module takes no others.
    """

    module: torch.nn.Module
    inputs: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]
    outputs: Sequence[str] = ()
    dynamic: Mapping[str, Mapping[int, str]] | None = None
    extents: Mapping[str, Sequence[int]] = field(default_factory=dict)
    draw: Callable[[Mapping[str, int], int], Mapping[str, torch.Tensor]] | None = None
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class TorchParts:
    """Modules that are run one after another, by the names of their parts.

    Attributes:
        parts: In the order in which they're run.
        generation: How tokens are chosen, where they write token by token.
    """

    parts: Mapping[str, TorchExport]
    generation: Generation | None = None
