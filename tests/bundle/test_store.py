"""Files are named by their content and written once."""

from __future__ import annotations

from pathlib import Path

from builder.bundle.store import Store

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""SHA-256 of nothing and of 'abc', from FIPS 180-4's examples."""


def test_a_file_is_named_by_its_hash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.add(b"abc", ".bin") == {"path": f"files/{ABC}.bin", "size": 3, "sha256": ABC}
    assert (tmp_path / "files" / f"{ABC}.bin").read_bytes() == b"abc"
    assert store.add(b"", ".bin")["sha256"] == EMPTY


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.add(b"abc", ".bin") == store.add(memoryview(b"abc"), ".bin")
    assert len(list((tmp_path / "files").iterdir())) == 1


def test_a_blob_is_cut_into_shards_that_join_to_it(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5
    blob = Store(tmp_path, limit=500).add_blob(content, "weights.bin")
    parts = [(tmp_path / shard["path"]).read_bytes() for shard in blob["shards"]]
    assert b"".join(parts) == content
    assert max(map(len, parts)) <= 500
    assert (blob["name"], blob["size"], len(parts)) == ("weights.bin", 1280, 3)
