"""PyTorch factories are exported in evaluation mode and give what PyTorch gives."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from builder import sources
from builder.errors import SourceError, UsageError
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.session import Session
from builder.tasks import Runner
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


def counter():
    """A first part that doubles, and a second one that adds to what it gave the run before."""
    from builder.sources import TorchExport, TorchParts

    class Double(nn.Module):
        def forward(self, x):
            return 2 * x

    class Count(nn.Module):
        def forward(self, doubled, before):
            return torch.cat([before, doubled], 1).sum(1, keepdim=True)

    free = {0: "batch", 1: "length"}
    double = TorchExport(Double(), {"x": torch.ones(2, 3)}, ["present.0.key"], {"x": free})
    example = {"past_key_values.0.key": torch.ones(2, 3), "past_key_values.1.key": torch.ones(2, 2)}
    axes = {"past_key_values.0.key": free, "past_key_values.1.key": {0: "batch", 1: "past"}}
    count = TorchExport(Count(), example, ["present.1.key"], axes)
    return TorchParts({"double": double, "count": count})


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


def test_a_model_in_parts(folder: Path) -> None:
    (folder / "work").mkdir()
    recipe = ModelRecipe(source="nets_of_tests:counter")
    models = sources.load_parts(recipe, base=folder, files={}, work=folder / "work").models
    assert list(models) == ["double", "count"]
    runner = Runner(None, models, None)
    # What one part gives another is no input; what goes from run to run is, and may be left out.
    assert [spec.name for spec in runner.interface.inputs] == ["x", "past_key_values.1.key"]
    assert [spec.name for spec in runner.interface.outputs] == ["present.1.key"]
    x = np.array([[1, 2, 3]], np.float32)
    assert runner.run({"x": x})["count"]["present.1.key"].tolist() == [[12]]
    before = np.array([[5]], np.float32)
    given = runner.run({"x": x, "past_key_values.1.key": before})
    assert given["count"]["present.1.key"].tolist() == [[17]]

    for part, why in {"double": "", "triple": "Choose from double, count"}.items():
        work = folder / part
        work.mkdir()
        asked = recipe.model_copy(update={"part": part})
        if why:
            with pytest.raises(UsageError, match=f"part '{part}'.*{why}"):
                sources.load(asked, base=folder, files={}, work=work)
        else:
            alone = sources.load(asked, base=folder, files={}, work=work)
            assert [spec.name for spec in alone.signature.inputs] == ["x"]


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
