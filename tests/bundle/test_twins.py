"""Sites as they are uploaded: what each host takes, and gzip twins that the manifest tells of."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder import pipeline, plan
from builder.bundle import hosts
from builder.errors import HostError

MIB = 1024**2


def build(source: Path, host: str) -> Path:
    """A site of one model in fp32, with the real web runtime."""
    out = source.with_name(host)
    made = plan.make([str(source)], out, flags=plan.Flags(dtypes=["fp32"], host=host))
    pipeline.run(made)
    return out


def manifest(site: Path) -> Any:
    return json.loads((site / "models" / "net" / "manifest.json").read_bytes())


def files(content: Any) -> Iterator[Any]:
    """Every file that a manifest names."""
    if isinstance(content, list):
        for entry in content:
            yield from files(entry)
    elif isinstance(content, dict):
        if str(content.get("path", "")).startswith("files/"):
            yield content
        for entry in content.values():
            yield from files(entry)


def wasm(site: Path) -> dict[str, Any]:
    return {f["name"]: f["wasm"] for f in manifest(site)["runtime"]["flavours"]}


@pytest.mark.parametrize("host", ["cloudflare-pages", "generic"])
def test_twins_are_noted_where_they_save_a_tenth(model_file: Path, host: str) -> None:
    site = build(model_file, host)
    noted = 0
    for file in files(manifest(site)):
        twin = site / f"{file['path']}.gz"
        if "gzip" in file:
            noted += 1
            assert file["gzip"] == twin.stat().st_size <= 0.9 * file["size"]
            content = gzip.decompress(twin.read_bytes())
            assert hashlib.sha256(content).hexdigest() == file["sha256"]
        elif file["path"].endswith((".bin", ".onnx")) and twin.is_file():
            assert twin.stat().st_size > 0.9 * file["size"]
    assert noted > 0
    # The wasm of every flavour gets small: 3.65 of 14.2 MB and so on, by other tools' measure.
    for blob in wasm(site).values():
        assert sum(shard["gzip"] for shard in blob["shards"]) < 0.3 * blob["size"]


def test_a_cloudflare_site_has_the_big_runtime_in_files_of_less_than_25_mib(
    model_file: Path,
) -> None:
    site = build(model_file, "cloudflare-pages")
    sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
    assert max(sizes.values()) <= 25 * MIB
    assert wasm(site)["asyncify"]["size"] > 25 * MIB
    for blob in wasm(site).values():
        whole = b"".join((site / shard["path"]).read_bytes() for shard in blob["shards"])
        assert hashlib.sha256(whole).hexdigest() == blob["sha256"]
        assert whole.startswith(b"\0asm")
    assert not list(site.rglob("*.br")), "the host compresses text itself"
    assert {path.suffixes[-2] for path in site.rglob("*.gz")} <= {".bin", ".onnx"}


def test_a_host_that_sends_twins_by_itself_needs_no_note(model_file: Path) -> None:
    site = build(model_file, "nginx")
    assert not any("gzip" in file for file in files(manifest(site)))
    assert list((site / "files").glob("*.br"))


def limited(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    profile = dataclasses.replace(hosts.HOSTS["cloudflare-pages"], max_file=limit)
    monkeypatch.setitem(hosts.HOSTS, "cloudflare-pages", profile)


def test_shards_follow_the_limit_of_the_host(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, MIB)
    site = build(model_file, "cloudflare-pages")
    assert max(path.stat().st_size for path in site.rglob("*") if path.is_file()) <= MIB
    assert all(len(blob["shards"]) > 13 for blob in wasm(site).values())


def test_what_cannot_be_cut_is_named(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 64 * 1024)
    # Named for every shard of 64 kB, the manifest itself grows beyond that.
    with pytest.raises(HostError, match=r"^models/net/manifest\.json: it has [0-9,]+ bytes"):
        build(model_file, "cloudflare-pages")
    assert not model_file.with_name("cloudflare-pages").exists()
