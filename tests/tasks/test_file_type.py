"""Files are read at both ends; a configuration that doesn't belong is refused."""

from __future__ import annotations

import json
from pathlib import Path

import magika
import numpy as np
import pytest

from builder.errors import UsageError
from builder.model import Model, Provenance, Signature
from builder.prepost import Draft
from builder.tasks import TASKS, Stages, file_type

PACKAGE = Path(magika.__file__).parent
FILES = {
    "config": PACKAGE / "models" / "standard_v3_3" / "config.min.json",
    "content_types": PACKAGE / "config" / "content_types_kb.min.json",
}


def _build(files: dict[str, Path], columns: int = 2048, **options: str) -> Stages:
    g = Draft("model")
    x = g.input("x", "int32", ["batch", columns])
    part = g.add("Slice", x, np.array([0]), np.array([214]), np.array([1]))
    g.output(g.add("Cast", part, to=1), "y", "float32", ["batch", 214])
    graph = g.model()
    model = Model(graph, Signature.of(graph.graph), Provenance("test"))
    return TASKS["file-type"].build(model, options, files)


def test_labels_are_the_models_and_those_of_the_rules() -> None:
    labels = _build(FILES).labels
    assert len(labels) == 216
    assert labels[0] == "3gp"
    assert labels[-2:] == ("unknown", "empty")


def test_a_long_file_is_read_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "long.bin"
    path.write_bytes(b"a" * 4096 + b"b" * 5000 + b"c" * 4096)
    got = _build(FILES).decode(path)["bytes"]
    assert got.tobytes() == b"a" * 4096 + b"c" * 4096
    path.write_bytes(b"z" * 8192)
    assert _build(FILES).decode(path)["bytes"].tobytes() == b"z" * 8192


def test_parts_of_samples_are_for_the_gate_and_a_short_one_for_the_probe() -> None:
    stages = _build(FILES)
    content = np.arange(5000, dtype=np.uint8)
    made = stages.evaluation([{"bytes": content}, {"bytes": content[:0]}], 3)
    assert len(made) == 48
    assert all(part["bytes"].tobytes() in content.tobytes() for part in made)
    assert stages.probe([{"bytes": content}])["bytes"].tolist() == content[:1024].tolist()


def test_without_samples_files_are_made_up() -> None:
    made = file_type.slices([], 1)
    assert len(made) == 48
    assert made[0].tobytes().isascii()
    assert made[0].tolist() == file_type.slices([], 1)[0].tolist()


def test_files_that_are_missing_wrong_or_of_another_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="file 'config'"):
        _build({})
    with pytest.raises(UsageError, match="'x', which has the shape"):
        _build(FILES, columns=512)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(UsageError, match=r"broken\.json"):
        _build({**FILES, "config": broken})
    later = json.loads(FILES["config"].read_text())
    broken.write_text(json.dumps({**later, "mid_size": 512}))
    with pytest.raises(UsageError, match="mid_size"):
        _build({**FILES, "config": broken})
    broken.write_text('{"python": {"is_text": true}}')
    with pytest.raises(UsageError, match="doesn't know"):
        _build({**FILES, "content_types": broken})
    with pytest.raises(UsageError, match="mode"):
        _build(FILES, mode="guess")
