"""PyTorch's own files: exported programs and TorchScript as PyTorch has them; the rest is told.

What is compared is computed by PyTorch here, the import runs in a process of its own.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from builder import plan, sources
from builder.errors import OnnxsiteError
from builder.fetch import locate
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.session import Session
from builder.sources.torch_program import faults
from tests.close import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


class Picture(nn.Module):
    """Pictures of any size to scores, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.conv(image)).mean((2, 3))
        return {"scores": self.drop(self.head(x))}


class Branch(nn.Module):
    """Another way for each sign of the sum: an If, which tracing by example would lose."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.up(x)  # type: ignore[no-any-return]
        return -2 * self.up(x)  # type: ignore[no-any-return]


class Chosen(nn.Module):
    """The same by torch.cond, as exported programs have it."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(
            x.sum() > 0, lambda x: self.up(x), lambda x: -2 * self.up(x), (x,)
        )
        return chosen


class Words(nn.Module):
    """Indices of words and their weights to one vector each text."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6)

    def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (self.table(ids) * weights[..., None]).sum(1)  # type: ignore[no-any-return]


def picture(path: Path) -> tuple[nn.Module, Path]:
    module = Picture().eval()
    sizes = {
        0: torch.export.Dim("n", min=1, max=6),
        2: torch.export.Dim("h", min=4, max=64),
        3: torch.export.Dim("w", min=4),
    }
    example = (torch.randn(2, 3, 16, 24),)
    program = torch.export.export(module, example, dynamic_shapes={"image": sizes})
    torch.export.save(program, path)
    return module, path


def fixed(path: Path) -> tuple[nn.Module, Path]:
    module = Picture().eval()
    torch.export.save(torch.export.export(module, (torch.randn(1, 3, 8, 8),)), path)
    return module, path


def chosen(path: Path) -> tuple[nn.Module, Path]:
    module = Chosen().eval()
    torch.export.save(torch.export.export(module, (torch.randn(2, 4),)), path)
    return module, path


def scripted(module: nn.Module) -> Callable[[Path], tuple[nn.Module, Path]]:
    def make(path: Path) -> tuple[nn.Module, Path]:
        torch.jit.script(module.eval()).save(path)  # type: ignore[no-untyped-call]
        return module, path

    return make


def frozen(path: Path) -> tuple[nn.Module, Path]:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    traced = torch.jit.trace(module, torch.randn(1, 3, 8, 8))  # type: ignore[no-untyped-call]
    torch.jit.freeze(traced).save(path)
    return module, path


Case = tuple[str, Callable[[Path], tuple[nn.Module, Path]], dict[str, Any], list[Any]]

FILES: Mapping[str, Case] = {
    "exported program, free sizes": ("net.pt2", picture, {}, ["batch", 3, "height", "width"]),
    "exported program, fixed": ("net.pt2", fixed, {}, [1, 3, 8, 8]),
    "exported program, torch.cond": ("net.pt2", chosen, {}, [2, 4]),
    "TorchScript, an If": ("net.pt", scripted(Branch()), {"x": ["batch", 4]}, ["batch", 4]),
    "TorchScript, frozen": (
        "net.torchscript",
        frozen,
        {"input": ["batch", 3, "height", "width"]},
        ["batch", 3, "height", "width"],
    ),
    "TorchScript, two inputs": (
        "net.jit",
        scripted(Words()),
        {"ids": ["batch", "length"], "weights": ["batch", "length"]},
        ["batch", "length"],
    ),
}


def load(path: Path, **recipe: Any) -> Model:
    work = path.parent / "work"
    work.mkdir()
    return sources.load(
        ModelRecipe(source=path.name, **recipe), base=path.parent, files={}, work=work
    )


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_files(case: Case, tmp_path: Path) -> None:
    name, make, shapes, shape = case
    torch.manual_seed(0)
    module, path = make(tmp_path / name)
    types = {"ids": "int64"} if "ids" in shapes else {}
    model = load(path, shapes=shapes, types=types)
    assert list(model.signature.inputs[0].shape) == shape
    rng = np.random.default_rng(1)
    extents = {"batch": 3, "height": 20, "width": 9, "length": 7}
    for sign in (1, -1):
        given: dict[str, Any] = {}
        for spec in model.signature.inputs:
            size = [n if isinstance(n, int) else extents[n] for n in spec.shape]
            given[spec.name] = (
                rng.integers(0, 20, size)
                if spec.dtype == "int64"
                else sign * rng.random(size, np.float32)
            )
        with torch.no_grad():
            expected = module(*(torch.from_numpy(array) for array in given.values()))
        want = expected["scores"] if isinstance(expected, dict) else expected
        (got,) = Session(model.ir).run(given).values()
        assert_close(got, want.numpy(), rtol=1e-4, atol=1e-5)


class Hostile:
    """Touches a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def hostile(path: Path) -> None:
    torch.save({"weight": torch.zeros(2), "more": Hostile(path.parent / "touched")}, path)


def rewritten(key: str, value: str) -> Callable[[Path], None]:
    """An exported program with another string somewhere."""

    def change(content: Any) -> Any:
        if isinstance(content, dict):
            return {
                k: value if k == key and isinstance(v, str) and _matters(key, v) else change(v)
                for k, v in content.items()
            }
        return [change(item) for item in content] if isinstance(content, list) else content

    def make(path: Path) -> None:
        picture(path.with_name("whole.pt2"))
        with (
            zipfile.ZipFile(path.with_name("whole.pt2")) as whole,
            zipfile.ZipFile(path, "w") as archive,
        ):
            for entry in whole.namelist():
                data = whole.read(entry)
                if entry.endswith("model.json"):
                    data = json.dumps(change(json.loads(data))).encode()
                archive.writestr(entry, data)

    return make


def _matters(key: str, value: str) -> bool:
    return key != "target" or value.startswith("torch.")


REFUSED: Mapping[str, tuple[str, Callable[[Path], Any], dict[str, Any], str]] = {
    "weights alone": (
        "net.pth",
        lambda path: torch.save(Picture().state_dict(), path),
        {},
        r"weights alone \(4 tensors: conv\.weight, .*nets\.py:make --weights net\.pth",
    ),
    "a checkpoint": (
        "net.ckpt",
        lambda path: torch.save({"epoch": 3, "model": Picture().state_dict()}, path),
        {},
        r"4 tensors: model\.conv\.weight",
    ),
    "weights in the old format": (
        "net.bin",
        lambda path: torch.save(Picture().state_dict(), path, _use_new_zipfile_serialization=False),
        {},
        "weights alone",
    ),
    "a pickled module": (
        "net.pt",
        lambda path: torch.save(Picture(), path),
        {},
        r"would run .*Picture.*state_dict\(\)",
    ),
    "a hostile pickle": ("net.pt", hostile, {}, "would run"),
    "a hostile pickle, trusted": ("net.pt", hostile, {"trust": True}, "would run"),
    "a pickle of something else": (
        "net.pt",
        lambda path: path.write_bytes(pickle.dumps({"a": [1, 2]})),
        {},
        "can't be read|holds a dict",
    ),
    "text": ("net.pt", lambda path: path.write_text("hello"), {}, "can't be read"),
    "a cut archive": (
        "net.pt2",
        lambda path: path.write_bytes(picture(path)[1].read_bytes()[:3000]),
        {},
        "damaged",
    ),
    "TorchScript without shapes": (
        "net.pt",
        scripted(Branch()),
        {},
        "which shapes its inputs have: x.*--shape x=batch",
    ),
    "TorchScript, a wrong name": (
        "net.pt",
        scripted(Branch()),
        {"shapes": {"x": [1, 4], "y": [1]}},
        "no such input",
    ),
    "an exported program, hostile size": (
        "net.pt2",
        rewritten("expr_str", "__import__('os').getcwd()"),
        {},
        "the expression __import__",
    ),
    "an exported program, hostile operator": (
        "net.pt2",
        rewritten("target", "torch.os.getcwd"),
        {},
        r"the operator torch\.os\.getcwd",
    ),
    "an exported program with shapes": (
        "net.pt2",
        picture,
        {"shapes": {"image": [1, 3, 8, 8]}},
        "has its own",
    ),
}


@pytest.mark.parametrize(("name", "make", "asked", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_refusals(
    name: str, make: Callable[[Path], Any], asked: dict[str, Any], said: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(OnnxsiteError, match=rf"{name}(.|\n)*({said})"):
        load(tmp_path / name, **asked)
    assert not (tmp_path / "touched").exists()


def test_what_torch_writes_needs_no_trust(tmp_path: Path) -> None:
    assert list(faults(picture(tmp_path / "net.pt2")[1])) == []


def test_silero_as_torchscript_is_refused_for_its_rate(tmp_path: Path) -> None:
    # Its forward takes the sampling rate as a Python int, which no tensor of a page can be.
    source = "pypi:silero-vad==6.2.3#silero_vad/data/silero_vad.jit"
    located = locate(ModelRecipe(source=source), base=tmp_path)
    recipe = located.recipe.model_copy(update={"shapes": {"x": [1, 512]}})
    with pytest.raises(OnnxsiteError, match=r"input 'sr' of forward.*of type int.*factory"):
        sources.load(recipe, base=tmp_path, files=located.files, work=tmp_path)


def test_weights_of_the_command_line_reach_the_factory(tmp_path: Path) -> None:
    torch.manual_seed(2)
    (tmp_path / "nets.py").write_text(
        "import torch\n\n\ndef make(weights):\n    net = torch.nn.Linear(4, 2)\n"
        "    net.load_state_dict(torch.load(weights, weights_only=True))\n"
        "    return net, {'x': torch.zeros(1, 4)}\n"
    )
    net = nn.Linear(4, 2)
    torch.save(net.state_dict(), tmp_path / "w.pth")
    flags = plan.Flags(weights=str(tmp_path / "w.pth"))
    (job,) = plan.make([f"{tmp_path / 'nets.py'}:make"], tmp_path, flags=flags).jobs
    files = locate(job.recipe, base=tmp_path).files
    (tmp_path / "work").mkdir()
    model = sources.load(job.recipe, base=tmp_path, files=files, work=tmp_path / "work")
    x = np.ones((1, 4), np.float32)
    (got,) = Session(model.ir).run({"x": x}).values()
    assert_close(got, net(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
