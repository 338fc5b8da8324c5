"""PyTorch factories are exported in evaluation mode and give what PyTorch gives."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from builder import sources
from builder.errors import SourceError
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.session import Session
from tests.close import assert_close

CODE = '''
import os
from pathlib import Path
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        x = self.drop(torch.relu(self.norm(self.conv(image))))
        return self.head(x.mean((2, 3)))


class Wrapper(nn.Module):
    """Puts its inner model back into training mode whenever it is told anything."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def train(self, mode=True):
        self.training = mode
        self.inner.train(True)
        return self

    def forward(self, image):
        return self.inner(image)


def net():
    torch.manual_seed(1)
    model = Net()
    with torch.no_grad():
        model.train()(torch.randn(16, 3, 8, 8))  # statistics that matter
    return model


def plain():
    return net().train(), {"image": torch.zeros(1, 3, 8, 8)}


def wrapped():
    return Wrapper(net()), (torch.zeros(1, 3, 8, 8),)


def from_file(weights: Path):
    model = nn.Linear(4, 2)
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model, {"x": torch.zeros(1, 4)}


def raises():
    raise ValueError("no weights today")


def dies():
    os._exit(3)


def wrong():
    return "a model"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets_of_tests.py").write_text(CODE)
    return tmp_path


def load(folder: Path, factory: str, **files: Path) -> Model:
    work = folder / "work"
    work.mkdir()
    recipe = ModelRecipe(source=f"nets_of_tests:{factory}")
    return sources.load(recipe, base=folder, files=files, work=work)


@pytest.mark.parametrize("factory", ["plain", "wrapped"])
def test_a_model_left_in_training_mode_is_exported_in_evaluation_mode(
    folder: Path, monkeypatch: pytest.MonkeyPatch, factory: str
) -> None:
    model = load(folder, factory)
    (spec,) = model.signature.inputs
    assert spec.name == "image"
    assert isinstance(spec.shape[0], str)
    assert spec.shape[1:] == (3, 8, 8)
    monkeypatch.syspath_prepend(str(folder))
    reference = importlib.import_module("nets_of_tests").net().eval()
    sys.modules.pop("nets_of_tests")
    for batch in (1, 5):
        image = torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(batch))
        with torch.no_grad():
            expected = reference(image).numpy()
        (got,) = Session(model.ir).run({"image": image.numpy()}).values()
        assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_a_factory_gets_the_files_that_it_asks_for(folder: Path) -> None:
    weights = folder / "weights.pt"
    state = {"weight": torch.eye(4)[:2] * 3, "bias": torch.tensor([1.0, 2.0])}
    torch.save(state, weights)
    model = load(folder, "from_file", weights=weights, labels=folder / "unused.txt")
    (got,) = Session(model.ir).run({"x": np.ones((1, 4), np.float32)}).values()
    assert got.tolist() == [[4.0, 5.0]]


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("raises", "no weights today"),
        ("dies", "died"),
        ("wrong", "str"),
        ("absent", "absent"),
    ],
)
def test_a_bad_factory_is_named_with_its_reason(folder: Path, factory: str, said: str) -> None:
    with pytest.raises(SourceError, match=f"{factory}(.|\n)*{said}"):
        load(folder, factory)
