"""A small made-up site in the layout of a built one, and a client of what serves it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from builder.server import create_app

SCRIPT = b"export const answer = 42;\n" * 40
WEIGHTS = bytes(range(256)) * 16
HASH = "0123456789abcdef" * 4

FILES = {
    "index.html": b"<!doctype html><title>gallery</title>",
    "404.html": b"<!doctype html><title>not here</title>",
    "onnxsite.js": SCRIPT,
    "assets/model-0123456789ab.js": SCRIPT,
    "assets/favicon-0123456789ab.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "models/net/index.html": b"<!doctype html><title>net</title>",
    "models/net/manifest.json": b"{}",
    "models/net/recipe.toml": b"title = 'net'\n",
    f"files/{HASH}.bin": WEIGHTS,
    f"files/{HASH}.onnx": b"\x08\x0a",
    f"files/{HASH}.mjs": SCRIPT,
    "app.wasm": b"\0asm\1\0\0\0",
    "site.webmanifest": b"{}",
    ".onnxsite.json": b"{}",
    ".hidden/secret.txt": b"hidden",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site; its scripts have both twins."""
    root = tmp_path / "site"
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if path.suffix in {".js", ".mjs"}:
            path.with_name(path.name + ".br").write_bytes(brotli.compress(content))
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(content, mtime=0))
    return root


class Client(FlaskClient):
    """Reads every answer to its end, as a browser does, so that files are closed."""

    def open(self, *args: Any, buffered: bool = True, **kwargs: Any) -> TestResponse:
        return super().open(*args, buffered=buffered, **kwargs)


@pytest.fixture
def client_of() -> Callable[..., FlaskClient]:
    """Makes a client from the arguments of `create_app`."""

    def make(site: Path, **options: Any) -> FlaskClient:
        app = create_app(site, **options)
        app.test_client_class = Client
        return app.test_client()

    return make


@pytest.fixture
def client(site: Path, client_of: Callable[..., FlaskClient]) -> FlaskClient:
    """A client of the site at the root."""
    return client_of(site)
