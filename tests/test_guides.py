"""The guides of the documentation do what they say, block by block."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUIDES = (ROOT / "docs" / "guides.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", GUIDES, re.DOTALL | re.MULTILINE))
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_guide(title: str, tmp_path: Path) -> None:
    for kind, content in BLOCK.findall(SECTIONS[title]):
        if kind == "python":
            name = content.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(content, encoding="utf-8")
            continue
        for line in content.splitlines():
            command = [sys.executable, *shlex.split(line)[1:]]
            assert line.startswith("python ")
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    (found,) = (tmp_path / "site").glob("models/*/manifest.json")
    manifest = json.loads(found.read_text(encoding="utf-8"))
    (stage,) = manifest["stages"]
    assert all(variant["verdict"]["passed"] for variant in stage["variants"])
    assert manifest["references"]


def test_every_framework_has_one() -> None:
    assert list(SECTIONS) == [
        "scikit-learn",
        "PyTorch",
        "TensorFlow",
        "Hugging Face",
        "Plain ONNX",
    ]
