"""Sources that are named by where they are published: web servers, packages, folders of a hub."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import pytest

from builder.cache import cache_dir
from builder.errors import FetchError, UsageError
from builder.fetch import hub, locate
from builder.fetch.reference import label, split_pin
from builder.recipe import ModelRecipe
from builder.server import running
from tests.conftest import convnet

ROOT = Path(__file__).resolve().parents[2]
NET = convnet().SerializeToString()
PIN = hashlib.sha256(NET).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "bert", "architectures": ["BertModel"]}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same again",
    "modeling_own.py": b"raise SystemExit",
    "onnx/model.onnx": NET,
}
"""Of the folder owner/net on the hub."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """A web server with a model at /net.onnx, and what else a server may do."""
    app = flask.Flask("host")

    def net(name: str) -> Any:
        del name
        return flask.Response(NET, mimetype="application/octet-stream")

    def moved() -> Any:
        return flask.redirect("/files/net.onnx")

    def private() -> Any:
        return flask.redirect("/login?next=/private.onnx")

    def login() -> str:
        return "  <!DOCTYPE html><title>Sign in</title>"

    def status(code: int) -> Any:
        return flask.Response("no", code)

    def model_info(owner: str, name: str, revision: str) -> Any:
        if f"{owner}/{name}" != "owner/net":
            return flask.Response("", 404, {"X-Error-Code": "RepoNotFound"})
        if revision not in {"main", COMMIT}:
            return flask.Response("", 404, {"X-Error-Code": "RevisionNotFound"})
        return {
            "id": "owner/net",
            "sha": COMMIT,
            "siblings": [{"rfilename": path} for path in FILES],
        }

    def resolve(owner: str, name: str, commit: str, path: str) -> Any:
        del owner, name
        if commit != COMMIT or path not in FILES:
            return flask.Response("", 404, {"X-Error-Code": "EntryNotFound"})
        etag = hashlib.sha256(FILES[path]).hexdigest()
        return flask.Response(FILES[path], headers={"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    app.add_url_rule("/files/<name>", view_func=net)
    app.add_url_rule("/moved.onnx", view_func=moved)
    app.add_url_rule("/private.onnx", view_func=private)
    app.add_url_rule("/login", view_func=login)
    app.add_url_rule("/status/<int:code>", view_func=status)
    app.add_url_rule("/api/models/<owner>/<name>/revision/<revision>", view_func=model_info)
    app.add_url_rule("/<owner>/<name>/resolve/<commit>/<path:path>", view_func=resolve)
    with running(app) as url:
        yield url.rstrip("/")


@pytest.fixture
def kept() -> Path:
    """The cache of this machine's user."""
    return cache_dir()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: str) -> Path:
    monkeypatch.setenv("ONNXSITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", web)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "cache"


def source(text: str, sha256: str | None = None) -> ModelRecipe:
    return ModelRecipe(source=text, sha256=sha256)


@pytest.mark.parametrize("path", ["files/net.onnx", "moved.onnx", "files/net.onnx?download=true"])
def test_an_address_is_fetched_and_its_hash_is_told(
    cache: Path, web: str, tmp_path: Path, path: str
) -> None:
    located = locate(source(f"{web}/{path}"), base=tmp_path)
    found = located.files[located.recipe.source]
    assert found.read_bytes() == NET
    assert found.suffix == ".onnx"
    assert found.is_relative_to(cache)
    assert located.recipe.sha256 == PIN
    (event,) = located.events
    assert (event.level, f"--sha256 {PIN}" in event.message) == ("warning", True)
    assert locate(located.recipe, base=tmp_path).events == ()


def test_a_pinned_address_is_asked_once(cache: Path, web: str, tmp_path: Path) -> None:
    pinned = source(f"{web}/files/net.onnx", PIN)
    first = locate(pinned, base=tmp_path)
    gone = source(f"{web}/status/404/net.onnx", PIN)  # the cache has the content by its hash
    assert locate(gone, base=tmp_path).files[gone.source] == first.files[pinned.source]


@pytest.mark.parametrize(
    ("path", "sha256", "said"),
    [
        ("status/404", None, r"there is no such file on the server \(HTTP 404\)"),
        ("status/403", None, "doesn't allow it"),
        ("status/500", None, "HTTP 500"),
        ("private.onnx", None, "a web page of .*/login, where it led to, not a file"),
        ("login", None, "answered with a web page, not a file"),
        ("files/net.onnx", "0" * 64, f"its SHA-256 is {PIN}, pinned is 0000"),
        ("files/net.onnx#sha256=12", None, "64 hexadecimal digits"),
    ],
)
def test_what_a_server_does_wrong_is_named(
    cache: Path, web: str, tmp_path: Path, path: str, sha256: str | None, said: str
) -> None:
    with pytest.raises(FetchError, match=said):
        locate(source(f"{web}/{path}", sha256), base=tmp_path)
    assert not [p for p in cache.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://127.0.0.1:9/net.onnx", "can't be reached"),  # the port that discards
        ("https://", "no host"),
        ("https://me:secret@example.org/net.onnx", "name or password"),
        ("hf:net", "names nothing on a hub"),
        ("hf:owner/gone", "no such folder on the hub"),
        (f"hf:owner/net@{'1' * 40}", "no such commit"),
        ("hf:owner/net#vae.onnx", "no such file in it"),
        ("npm:is-number@7.0.0#model.onnx", "no such file among its"),
    ],
)
def test_what_cannot_be_had_is_named(cache: Path, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FetchError, match=said) as caught:
        locate(source(text), base=tmp_path)
    assert "secret" not in str(caught.value)


def test_hashes_of_what_has_none(cache: Path, tmp_path: Path) -> None:
    for text in (f"hf:owner/net@{COMMIT}", "net.onnx"):
        with pytest.raises(UsageError, match="sha256 of"):
            locate(source(text, PIN), base=tmp_path)


def test_a_folder_of_the_hub_comes_without_code(cache: Path, tmp_path: Path) -> None:
    located = locate(source("hf:owner/net"), base=tmp_path)
    assert located.recipe.source == f"hf:owner/net@{COMMIT}"
    folder = located.files[located.recipe.source]
    assert folder.name == "net"
    found = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert {f for f in found if not f.startswith(".")} == {
        "config.json",
        "tokenizer.json",
        "model.safetensors",
    }
    (event,) = located.events
    assert f"pin hf:owner/net@{COMMIT}" in event.message
    again = locate(located.recipe, base=tmp_path)
    assert (again.files, again.events) == (located.files, ())


def test_a_file_of_the_hub(cache: Path, tmp_path: Path) -> None:
    located = locate(source("hf:owner/net#onnx/model.onnx"), base=tmp_path)
    assert located.recipe.source == f"hf:owner/net@{COMMIT}#onnx/model.onnx"
    assert located.recipe.sha256 == PIN
    assert len(located.events) == 2


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        (["model.safetensors", "onnx/model.onnx"], ["model.safetensors"]),
        (["pytorch_model.bin", "x.py"], ["pytorch_model.bin"]),
        (["onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_q4.onnx"], ["onnx/model.onnx"]),
    ],
)
def test_weights_come_in_one_form(files: list[str], taken: list[str]) -> None:
    needed = hub.needed("hf:o/n", ["config.json", *files])
    assert needed[:2] == ["config.json", *taken]
    assert not any(name.endswith(("q4.onnx", ".py")) for name in needed)
    with pytest.raises(FetchError, match=r"no weights to import.*README\.md"):
        hub.needed("hf:o/n", ["README.md", "flax_model.msgpack"])


def test_names_and_pins() -> None:
    assert label("pypi:silero-vad==6.2.3#silero_vad/data/silero_vad.onnx") == "silero_vad.onnx"
    assert label(f"hf:owner/net@{COMMIT}") == "net"
    assert label("https://example.org/a/net%20one.onnx?download=true") == "net_one.onnx"
    assert split_pin(f"https://example.org/n.onnx#sha256={PIN.upper()}") == (
        "https://example.org/n.onnx",
        PIN,
    )
    assert split_pin("pypi:a==1#b") == ("pypi:a==1#b", None)


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "builder", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_build_inspect_and_init_take_an_address(
    kept: Path, cache: Path, web: str, tmp_path: Path
) -> None:
    if (kept / "compressed").is_dir():  # the runtime's files, which take two minutes
        shutil.copytree(kept / "compressed", cache / "compressed")
    address = f"{web}/files/net.onnx"
    done = command("inspect", address, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["source"]["sha256"], said["source"]["url"]) == (PIN, address)
    assert PIN in said["events"][0]["message"]
    done = command("init", address, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (model,) = tomllib.loads((tmp_path / "site.toml").read_text())["models"]
    assert (model["source"], model["sha256"]) == (address, PIN)
    done = command("build", address, "--dtype", "fp32", "-o", "site", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"--sha256 {PIN}" in done.stdout, "also where nobody asked for -v"
    manifest = json.loads((tmp_path / "site/models/net/manifest.json").read_text())
    assert (manifest["source"]["sha256"], manifest["source"]["url"]) == (PIN, address)
    pinned = tomllib.loads((tmp_path / "site/models/net/recipe.toml").read_text())["models"][0]
    assert pinned["sha256"] == PIN
    done = command(
        "build", f"{address}#sha256={PIN}", "--dtype", "fp32", "-o", "site", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert PIN not in done.stdout
    done = command("inspect", address, "--sha256", "0" * 64, cwd=tmp_path)
    assert done.returncode == 1
    assert "pinned is 0000" in done.stderr
