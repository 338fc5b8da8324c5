"""Files of a hub, by the hub's own client against a server that speaks its protocol.

What a hub answers: huggingface.co's `resolve` addresses, as the client's documentation and errors
describe them (X-Repo-Commit, ETag, X-Error-Code).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from builder.server import running

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONTENT = b'{"model_type": "bert"}\n'
DIGEST = hashlib.sha256(CONTENT).hexdigest()
CODES = {
    "owner/gone": (404, "RepoNotFound"),
    "owner/gated": (403, "GatedRepo"),
    "owner/moved": (404, "RevisionNotFound"),
}


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    app = flask.Flask("hub")

    def resolve(owner: str, name: str, commit: str, path: str) -> flask.Response:
        status, code = CODES.get(f"{owner}/{name}", (404, "EntryNotFound"))
        if (f"{owner}/{name}", commit, path) == ("owner/net", COMMIT, "onnx/config.json"):
            response = flask.Response(CONTENT)
            response.headers["X-Repo-Commit"] = COMMIT
            response.headers["ETag"] = f'"{DIGEST}"'
            return response
        response = flask.Response("", status)
        response.headers["X-Error-Code"] = code
        return response

    app.add_url_rule("/<owner>/<name>/resolve/<commit>/<path:path>", view_func=resolve)
    with running(app) as url:
        yield url.rstrip("/")


def digest(ref: str, cache: Path, endpoint: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache / "hf"),
        "ONNXSITE_CACHE": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, "-m", "builder.fetch", ref],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_file_comes_with_its_hash(hub: str, tmp_path: Path) -> None:
    ref = f"hf:owner/net@{COMMIT}#onnx/config.json"
    done = digest(ref, tmp_path, hub)
    assert done.stdout == f'{{ ref = "{ref}", sha256 = "{DIGEST}" }}\n', done.stderr
    assert not list(tmp_path.glob(".new-*"))


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        (f"hf:owner/net@{COMMIT}#onnx/confog.json", "no such file"),
        (f"hf:owner/gone@{COMMIT}#x", "no such folder on the hub, or it is private"),
        (f"hf:owner/gated@{COMMIT}#x", "terms to be accepted"),
        (f"hf:owner/moved@{COMMIT}#x", "no such commit"),
        ("hf:owner/net@main#x", "hf:OWNER/NAME@COMMIT#PATH"),
    ],
)
def test_what_is_wrong_is_named(hub: str, tmp_path: Path, ref: str, said: str) -> None:
    done = digest(ref, tmp_path, hub)
    assert done.returncode == 1
    assert said in done.stderr
    assert ref in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    ref = f"hf:owner/net@{COMMIT}#x"
    done = digest(ref, tmp_path, "http://127.0.0.1:9")  # the port that discards
    assert done.returncode == 1
    assert "the hub can't be reached" in done.stderr
