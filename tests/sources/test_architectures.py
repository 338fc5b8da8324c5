"""Architectures with seeded random weights give in onnxruntime what they give in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from builder.errors import OnnxsiteError
from builder.session import Session
from builder.sources import TorchExport
from tests.close import assert_close
from tests.sources.exported import exported

Inputs = dict[str, torch.Tensor]


class Residual(nn.Module):
    """Two convolutions with batch norms, around which the input goes as well, as in ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return F.relu(image + self.layers(image))


class UNet(nn.Module):
    """Down twice and up twice, with what was there before at each size."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 16, 3, 2, 1)
        self.deep = nn.Conv2d(16, 32, 3, 2, 1)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.joined = nn.Conv2d(32, 8, 3, padding=1)
        self.leave = nn.Conv2d(16, 1, 1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = F.silu(self.enter(image))
        second = F.silu(self.norm(self.down(first)))
        third = self.up(F.silu(self.deep(second)))
        fourth = F.silu(self.joined(torch.cat([second, third], 1)))
        back = F.interpolate(fourth, scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.leave(torch.cat([first, back], 1)))


class Recurrent(nn.Module):
    """Two directions of two layers, over sequences of any length."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.layers = kind(5, 7, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(14, 3)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(steps)[0][:, -1])
        return scores


class Scaled(nn.Module):
    """Takes a scalar beside its tensor."""

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return x * by + by.expand_as(x)


class Found(nn.Module):
    """How much it gives depends on what is in its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x > 0)


FREE = {0: "batch", 2: "height", 3: "width"}

Row = tuple[Callable[[], nn.Module], Inputs, dict[str, dict[int, str]], Inputs]


def images(batch: int, height: int, width: int) -> Inputs:
    generator = torch.Generator().manual_seed(height)
    return {"image": torch.randn(batch, 3, height, width, generator=generator)}


def steps(batch: int, length: int) -> Inputs:
    return {"steps": torch.randn(batch, length, 5, generator=torch.Generator().manual_seed(length))}


ROWS: Mapping[str, Row] = {
    "ResNet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3),
            nn.MaxPool2d(3, 2, 1),
            Residual(8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        images(2, 32, 32),
        {"image": FREE},
        images(3, 48, 64),
    ),
    "U-Net": (UNet, images(2, 16, 16), {"image": {0: "batch"}}, images(5, 16, 16)),
    "LSTM": (
        lambda: Recurrent(nn.LSTM),
        steps(2, 6),
        {"steps": {0: "batch", 1: "length"}},
        steps(3, 11),
    ),
    "GRU": (
        lambda: Recurrent(nn.GRU),
        steps(2, 6),
        {"steps": {0: "batch", 1: "length"}},
        steps(3, 11),
    ),
    "transformer": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(5, 1, 16, batch_first=True), 2, enable_nested_tensor=False
        ),
        steps(2, 6),
        {"steps": {0: "batch", 1: "length"}},
        steps(3, 11),
    ),
    "a scalar input": (
        Scaled,
        {"x": torch.ones(2, 3), "by": torch.tensor(2.0)},
        {"x": {0: "batch"}},
        {"x": torch.ones(4, 3), "by": torch.tensor(-0.5)},
    ),
    "as many rows as are above zero": (
        Found,
        {"x": torch.tensor([1.0, -1, 2, 3])},
        {},
        {"x": torch.tensor([-1.0, -1, 2, -3])},
    ),
}


@pytest.mark.filterwarnings("ignore")  # exporters' own
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_as_pytorch(row: Row, tmp_path: Path) -> None:
    make, example, dynamic, unseen = row
    torch.manual_seed(0)
    module = make().eval()
    parts = exported(TorchExport(module, example, dynamic=dynamic), tmp_path)
    model = parts.models["model"]
    (got,) = Session(model.ir).run({name: x.numpy() for name, x in unseen.items()}).values()
    with torch.no_grad():
        want = module(*unseen.values()).numpy()
    assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert [spec.name for spec in model.signature.inputs] == list(example)


@torch.library.custom_op("tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """An operator that ONNX has never heard of."""
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    """Calls it."""

    def forward(self, x: torch.Tensor) -> Any:
        return doubled(x)


REFUSED: Mapping[str, tuple[Callable[[], nn.Module], str]] = {
    "an operator of its own": (Custom, "tests"),
}


@pytest.mark.filterwarnings("ignore")  # exporters' own
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(make: Callable[[], nn.Module], message: str, tmp_path: Path) -> None:
    with pytest.raises(OnnxsiteError, match=f"export: .*{message}"):
        exported(TorchExport(make(), {"x": torch.ones(2, 3)}), tmp_path)
