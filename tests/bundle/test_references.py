"""Reference tensors come back from the file as they went in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from builder.bundle.references import store_reference
from builder.bundle.store import Store


def test_tensors_are_little_endian_and_aligned(tmp_path: Path) -> None:
    inputs = {"flag": np.array([True, False, True]), "n": np.array(7, ">i8")}
    outputs = {"y": np.array([[1.5, -2.0]], np.float32), "none": np.zeros((0, 4), np.float32)}
    reference = store_reference("probe", inputs, [("model", outputs)], Store(tmp_path))
    content = (tmp_path / reference["file"]["path"]).read_bytes()
    assert content[:3] == b"\x01\x00\x01"
    assert content[8:16] == (7).to_bytes(8, "little")
    assert content[16:24] == bytes.fromhex("0000c03f000000c0")  # IEEE 754: 1.5, -2.0
    entries = [*reference["inputs"], *reference["stages"][0]["outputs"]]
    assert [(e["dtype"], e["shape"], e["offset"], e["size"]) for e in entries] == [
        ("bool", [3], 0, 3),
        ("int64", [], 8, 8),
        ("float32", [1, 2], 16, 8),
        ("float32", [0, 4], 24, 0),
    ]
