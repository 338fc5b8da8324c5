"""Make EfficientNet-Lite0 out of its architecture's package and a file of weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from builder.errors import MissingExtraError

if TYPE_CHECKING:
    import torch

SIDE = 224
"""Height and width in pixels: what Lite0 is trained on. SAME padding depends on it."""


def factory(weights: Path) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The network with its weights, for pictures f32[batch,3,224,224] to scores f32[batch,1000].

    Args:
        weights: A state dict, `efficientnet-lite0-57934424.pth`.

    Returns:
        The module in evaluation mode, and example inputs by name.

    Raises:
        MissingExtraError: The architecture's package isn't installed.
    """
    import torch

    try:
        from efficientnet_lite_pytorch import EfficientNet
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "EfficientNet-Lite0",
            "the package with its architecture isn't installed",
            "Install it: pip install 'onnxsite[zoo]'.",
        ) from error
    module: torch.nn.Module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return module.eval(), {"input": torch.zeros(2, 3, SIDE, SIDE)}
