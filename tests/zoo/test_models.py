"""Real models end to end in Python: the answers are known from outside."""

from __future__ import annotations

import sys
import sysconfig
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import magika
import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

from builder.fetch import fetch
from builder.model import names
from builder.zoo.efficientnet_lite0 import factory

Load = Callable[[str], Any]


@pytest.mark.parametrize(
    ("file", "label", "score"),
    [
        # Of skimage's photographs: catalogued beforehand with Pillow and PyTorch.
        ("chelsea.png", "Egyptian cat", 0.39),
        ("coffee.png", "espresso", 0.94),
    ],
)
def test_photographs_are_named(imported: Load, file: str, label: str, score: float) -> None:
    lite0 = imported("efficientnet-lite0")
    got = lite0.run(lite0.samples[file])
    assert lite0.stages.labels[int(got["classes"][0])] == label
    assert float(got["scores"][0]) == pytest.approx(score, abs=0.01)


def test_scores_are_those_of_pillow_and_pytorch(imported: Load) -> None:
    lite0 = imported("efficientnet-lite0")
    module, _ = factory(fetch(lite0.recipe.files["weights"]))
    assert isinstance(module, EfficientNet)
    for path in lite0.samples.values():
        picture = Image.open(path).convert("RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        cut = picture.crop((left, top, left + side, top + side))
        pixels = np.asarray(cut.resize((224, 224), Image.Resampling.BICUBIC), np.float32)
        x = torch.tensor((pixels - 127) / 128).permute(2, 0, 1)[None]
        with torch.no_grad():
            wanted = torch.softmax(module(x)[0], 0).topk(5)
        got = lite0.run(path)
        assert got["classes"].tolist() == wanted.indices.tolist(), path.name
        assert got["scores"].tolist() == pytest.approx(wanted.values.tolist(), abs=0.002)


def test_lite0_has_a_name_for_every_class(imported: Load) -> None:
    lite0 = imported("efficientnet-lite0")
    labels = lite0.stages.labels
    assert len(labels) == 1000
    # ImageNet's own order: class 0 is the tench, 999 toilet tissue.
    assert labels[0].startswith("tench")
    assert labels[999].startswith("toilet tissue")
    assert lite0.model.signature.inputs[0].shape == ("batch", 3, 224, 224)
    assert names(lite0.stages.interface.inputs) == ["image"]


def test_the_astronaut_has_one_face(imported: Load) -> None:
    centerface = imported("centerface")
    got = centerface.run(centerface.samples["astronaut.png"])
    assert got["boxes"].shape == (1, 4)
    assert got["scores"].tolist() == pytest.approx([0.93], abs=0.01)
    assert got["boxes"][0].tolist() == pytest.approx([182, 58, 270, 178], abs=1)
    left_eye, right_eye, nose, left_mouth, right_mouth = got["landmarks"][0].tolist()
    assert left_eye[0] < nose[0] < right_eye[0]
    assert max(left_eye[1], right_eye[1]) < nose[1] < min(left_mouth[1], right_mouth[1])


def test_a_cat_has_none(imported: Load) -> None:
    centerface = imported("centerface")
    got = centerface.run(centerface.samples["chelsea.png"])
    assert {name: array.shape[0] for name, array in got.items()} == {
        "boxes": 0,
        "scores": 0,
        "landmarks": 0,
    }


def test_a_face_is_found_where_it_is_in_a_larger_picture(imported: Load) -> None:
    centerface = imported("centerface")
    picture = np.asarray(Image.open(centerface.samples["astronaut.png"]).convert("RGBA"))
    wide = np.full((1200, 900, 4), 255, np.uint8)
    wide[300:812, 200:712] = picture
    got = centerface.runner.results({"image": wide})
    wanted = np.array([182 + 200, 58 + 300, 270 + 200, 178 + 300])
    assert got["boxes"].shape == (1, 4)
    # The model sees it at half the size, where a cell is eight pixels wide.
    assert np.abs(got["boxes"][0] - wanted).max() < 8


def test_a_threshold_near_one_leaves_no_face(imported: Load) -> None:
    centerface = imported("centerface")
    inputs = centerface.stages.decode(centerface.samples["astronaut.png"])
    got = centerface.runner.results({**inputs, "score_threshold": np.array(0.95, np.float32)})
    assert got["boxes"].shape == (0, 4)


def test_the_probe_of_a_face_has_one_and_is_small(imported: Load) -> None:
    centerface = imported("centerface")
    decoded = centerface.stages.decode(centerface.samples["astronaut.png"])
    probe = centerface.stages.probe([decoded])
    assert probe["image"].nbytes < 40_000
    assert len(centerface.runner.results(probe)["boxes"]) == 1


@pytest.fixture(scope="session")
def reference() -> magika.Magika:
    return magika.Magika()


def _agree(imported: Load, reference: magika.Magika, path: Path) -> None:
    ours = imported("magika")
    got = ours.run(path)
    wanted = reference.identify_path(path).prediction
    assert ours.stages.labels[int(got["classes"][0])] == str(wanted.output.label), path.name
    # The reference scores in batches of one as well; other builds of the runtime add differently.
    assert float(got["scores"][0]) == pytest.approx(float(wanted.score), abs=1e-5), path.name


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("_fetchers.py", "python"),
        ("chelsea.png", "png"),
        ("rocket.jpg", "jpeg"),
        ("README.md", "markdown"),
        ("config.min.json", "json"),
        ("multipage.tif", "tiff"),
        ("README.txt", "txt"),
    ],
)
def test_samples_are_what_their_names_say(
    imported: Load, reference: magika.Magika, file: str, label: str
) -> None:
    ours = imported("magika")
    path = ours.samples[file]
    assert ours.stages.labels[int(ours.run(path)["classes"][0])] == label
    _agree(imported, reference, path)


def _installed() -> list[Path]:
    """Up to three files of every kind that this Python came with, and every twentieth module."""
    kinds: dict[str, list[Path]] = defaultdict(list)
    for root in (Path(sysconfig.get_path("purelib")) / "numpy", Path(magika.__file__).parent):
        for path in sorted(root.rglob("*")):
            if path.is_file() and len(kinds[path.suffix]) < 3:
                kinds[path.suffix].append(path)
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::20]
    return [Path(sys.executable), *modules, *(path for paths in kinds.values() for path in paths)]


def test_installed_files_are_judged_as_by_the_reference(
    imported: Load, reference: magika.Magika
) -> None:
    files = _installed()
    assert len(files) > 30
    for path in files:
        _agree(imported, reference, path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"\x00",
        b"\xff",
        b" \n\t ",
        b" " * 10_000,
        b"\n" * 5000 + b"import os\n" * 2000 + b"\n" * 5000,
        b"#!/bin/sh\n" + b"echo hello\n" * 3000,
        b"import sys\n\n\ndef main():\n    print(sys.argv)\n",
        "grüße, 世界: ein kurzer Text\n".encode(),
        b"{}\n     ",
        b"\x89PNG\r\n\x1a\n" + bytes(20_000),
        bytes(range(256)) * 100,
        b"a,b,c\n1,2,3\n4,5,6\n" * 20,
    ],
    ids=range(14),
)
def test_odd_files_are_judged_as_by_the_reference(
    imported: Load, reference: magika.Magika, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    _agree(imported, reference, path)
