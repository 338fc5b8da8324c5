"""Shared by the tests of sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from builder.fetch import fetch
from builder.recipe import Pinned

ROOT = Path(__file__).resolve().parents[2]


PITCH = {
    "nmp.onnx": "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    "nmp.tflite": "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
    "nmp/saved_model.pb": "eaa25c91c431c91100c416a2c018663f4c635f28fa19529c4ff5e14c18aa29c9",
    "nmp/variables/variables.index": (
        "356aa1a00095cf2dba17386144e8b289cb04195ae090aa7f324312b08220115e"
    ),
    "nmp/variables/variables.data-00000-of-00001": (
        "f5d12cd7245fecea0c956c963751f3519c263615ea954b5948d5e8c9c3376f9b"
    ),
}
"""SHA-256 of the files of Basic Pitch, one model in three formats."""


def pitch(folder: Path) -> None:
    """Copy them to a folder."""
    inside = "basic_pitch/saved_models/icassp_2022"
    for name, sha256 in PITCH.items():
        file = fetch(Pinned(ref=f"pypi:basic-pitch==0.4.0#{inside}/{name}", sha256=sha256))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / name)


CENTERNET = {
    "centernet.json": "bfb942eaacc5becf738d536663bc4580a0ae9e560722306e6d4dd7fe4a09de05",
    "centernet.bin": "1b635a15009071f506f9f2b3519b31c072c534888989f30d269ffd44734ef7ef",
}
"""A detector of objects, MobileNetV3 with weights in 16 bits, as a graph model."""

PHOTOGRAPHS = {
    "astronaut": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    "coffee": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
}
"""Of scikit-image."""


def centernet(folder: Path) -> None:
    """Copy it to a folder, and photographs as it takes them: f32[1, 512, 512, 3] of 0 to 255."""
    for name, sha256 in CENTERNET.items():
        ref = f"npm:@vladmandic/human@3.3.6#models/{name}"
        shutil.copy(fetch(Pinned(ref=ref, sha256=sha256)), folder / name)
    for name, sha256 in PHOTOGRAPHS.items():
        ref = f"pypi:scikit-image==0.26.0#skimage/data/{name}.png"
        with Image.open(fetch(Pinned(ref=ref, sha256=sha256))) as picture:
            pixels = np.asarray(picture.convert("RGB").resize((512, 512)), np.float32)
        np.save(folder / f"{name}.npy", pixels[None])


@pytest.fixture(scope="session")
def tensorflow_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of TensorFlow with what it says of them, made in a process of its own."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder, finished = root / "tensorflow", root / "tensorflow.done"
    with FileLock(root / "tensorflow.lock"):  # once for all processes of a run
        if not finished.exists():
            folder.mkdir()
            pitch(folder)
            centernet(folder)
            command = [sys.executable, "-m", "tests.sources.tensorflow_cases", str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            finished.touch()
    return folder
