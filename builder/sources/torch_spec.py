"""What a PyTorch factory may return where `(module, inputs)` says too little. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """

    module: torch.nn.Module
    inputs: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]
    outputs: Sequence[str] = ()
    dynamic: Mapping[str, Mapping[int, str]] | None = None
