"""What a client gets: headers, encodings, ranges, validators, and nothing that isn't the site's."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

import brotli
import pytest
from flask.testing import FlaskClient

from builder.errors import UsageError
from builder.server import create_app

HASH = "0123456789abcdef" * 4
BIN = f"/files/{HASH}.bin"
SCRIPT = b"export const answer = 42;\n" * 40
WEIGHTS = bytes(range(256)) * 16


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/models/net/", "text/html; charset=utf-8"),
        ("/onnxsite.js", "text/javascript; charset=utf-8"),
        (f"/files/{HASH}.mjs", "text/javascript; charset=utf-8"),
        (BIN, "application/octet-stream"),
        (f"/files/{HASH}.onnx", "application/octet-stream"),
        ("/app.wasm", "application/wasm"),
        ("/models/net/manifest.json", "application/json"),
        ("/models/net/recipe.toml", "text/plain; charset=utf-8"),
        ("/assets/favicon-0123456789ab.svg", "image/svg+xml; charset=utf-8"),
        ("/site.webmanifest", "application/manifest+json"),
    ],
)
def test_types(client: FlaskClient, path: str, kind: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == kind
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", BIN, "/no/such/page", "/models/net"])
def test_every_answer_isolates(client: FlaskClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_isolation_can_be_left_out(site: Path, client_of: Callable[..., FlaskClient]) -> None:
    headers = client_of(site, isolate=False).get("/").headers
    assert not [name for name in headers.keys() if name.startswith("Cross-Origin")]  # noqa: SIM118
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "caching"),
    [
        (BIN, "public, max-age=31536000, immutable"),
        ("/assets/model-0123456789ab.js", "public, max-age=31536000, immutable"),
        ("/", "no-cache"),
        ("/onnxsite.js", "no-cache"),
        ("/models/net/", "no-cache"),
        ("/models/net/manifest.json", "no-cache"),
        ("/no/such/page", "no-cache"),
    ],
)
def test_caching(client: FlaskClient, path: str, caching: str) -> None:
    assert client.get(path).headers["Cache-Control"] == caching


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.1, gzip;q=0.9", "gzip"),
        ("br;q=0, gzip;q=0", None),
        ("*", "br"),
        ("*;q=0", None),
        ("gzip;q=0.2, identity;q=0.8", None),
        ("gzip;q=0.8, identity;q=0.2", "gzip"),
        ("zstd", None),
        ("br; q=broken, gzip", "gzip"),
    ],
)
def test_encodings(client: FlaskClient, accepted: str | None, encoding: str | None) -> None:
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    response = client.get("/onnxsite.js", headers=headers)
    decode = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding]
    assert response.headers.get("Content-Encoding") == encoding
    assert response.headers["Vary"] == "Accept-Encoding"
    assert decode(response.data) == SCRIPT
    assert response.content_length == len(response.data)


def test_a_file_without_twins_is_the_same_for_all(client: FlaskClient) -> None:
    response = client.get(BIN, headers={"Accept-Encoding": "br"})
    assert response.data == WEIGHTS
    assert "Content-Encoding" not in response.headers
    assert "Vary" not in response.headers


@pytest.mark.parametrize("ending", [".br", ".gz"])
def test_a_twin_asked_for_by_name_is_not_decoded(client: FlaskClient, ending: str) -> None:
    response = client.get(f"/onnxsite.js{ending}", headers={"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in response.headers
    assert response.mimetype == "application/octet-stream"


def test_validators_differ_by_encoding(client: FlaskClient) -> None:
    tags: dict[str, str | None] = {}
    for coding in ("identity", "gzip", "br"):
        first = client.get("/onnxsite.js", headers={"Accept-Encoding": coding})
        tags[coding], weak = first.get_etag()
        assert not weak
        again = client.get(
            "/onnxsite.js",
            headers={"Accept-Encoding": coding, "If-None-Match": first.headers["ETag"]},
        )
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
        assert again.headers["Vary"] == "Accept-Encoding"
    assert len(set(tags.values())) == 3
    other = client.get(
        "/onnxsite.js", headers={"Accept-Encoding": "gzip", "If-None-Match": f'"{tags["br"]}"'}
    )
    assert other.status_code == 200


def test_a_changed_file_changes_its_validator(client: FlaskClient, site: Path) -> None:
    before = client.get("/models/net/manifest.json").headers["ETag"]
    (site / "models/net/manifest.json").write_bytes(b'{"format": 1}')
    after = client.get("/models/net/manifest.json", headers={"If-None-Match": before})
    assert (after.status_code, after.data) == (200, b'{"format": 1}')


@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
    [("bytes=0-9", 0, 10), ("bytes=4000-", 4000, 4096), ("bytes=-5", 4091, 4096)],
)
def test_ranges(client: FlaskClient, wanted: str, start: int, stop: int) -> None:
    response = client.get(BIN, headers={"Range": wanted})
    assert response.status_code == 206
    assert response.data == WEIGHTS[start:stop]
    assert response.headers["Content-Range"] == f"bytes {start}-{stop - 1}/4096"
    assert response.headers["Accept-Ranges"] == "bytes"


def test_a_range_outside_is_refused(client: FlaskClient) -> None:
    response = client.get(BIN, headers={"Range": "bytes=5000-"})
    assert response.status_code == 416
    assert response.headers["Content-Range"] == "bytes */4096"


def test_a_resumed_download_gets_the_rest_or_all_anew(client: FlaskClient) -> None:
    tag = client.get(BIN).headers["ETag"]
    rest = client.get(BIN, headers={"Range": "bytes=4000-", "If-Range": tag})
    assert (rest.status_code, rest.data) == (206, WEIGHTS[4000:])
    anew = client.get(BIN, headers={"Range": "bytes=4000-", "If-Range": '"another"'})
    assert (anew.status_code, anew.data) == (200, WEIGHTS)


def test_a_range_of_an_encoding_is_of_its_bytes(client: FlaskClient, site: Path) -> None:
    response = client.get("/onnxsite.js", headers={"Accept-Encoding": "br", "Range": "bytes=0-3"})
    assert response.headers["Content-Encoding"] == "br"
    assert response.data == (site / "onnxsite.js.br").read_bytes()[:4]


def test_head(client: FlaskClient) -> None:
    got, headed = client.get("/onnxsite.js"), client.head("/onnxsite.js")
    assert headed.status_code == 200
    assert headed.data == b""
    drop = "Date"
    assert {k: v for k, v in headed.headers if k != drop} == {
        k: v for k, v in got.headers if k != drop
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(client: FlaskClient, method: str) -> None:
    assert client.open("/", method=method).status_code == 405


def test_a_folder_is_redirected_to_its_slash(client: FlaskClient) -> None:
    response = client.get("/models/net?device=wasm")
    assert response.status_code == 302
    assert response.headers["Location"] == "./net/?device=wasm"
    assert urljoin("http://host/repo/models/net", "./net/") == "http://host/repo/models/net/"


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.js",
        "/models",
        "/models/",
        "/index.html/",
        "/.onnxsite.json",
        "/.hidden/secret.txt",
        "/../outside.txt",
        "/models/../../outside.txt",
        "/%2e%2e/outside.txt",
        "/..%2foutside.txt",
        "/%2e%2e%2foutside.txt",
        "/models/net/..%5c..%5c..%5coutside.txt",
        "/link.txt",
        "/linked/outside.txt",
        "/a%00b",
        "/index.html%00.js",
    ],
)
def test_what_is_not_the_sites_is_not_there(client: FlaskClient, site: Path, path: str) -> None:
    (site.parent / "outside.txt").write_text("secret")
    (site / "link.txt").symlink_to(site.parent / "outside.txt")
    (site / "linked").symlink_to(site.parent)
    response = client.get(path)
    assert response.status_code == 404
    assert response.data == b"<!doctype html><title>not here</title>"


def test_a_twin_that_leads_outside_is_not_used(client: FlaskClient, site: Path) -> None:
    (site.parent / "outside.txt").write_text("secret")
    (site / "app.wasm.br").symlink_to(site.parent / "outside.txt")
    response = client.get("/app.wasm", headers={"Accept-Encoding": "br"})
    assert response.data == b"\0asm\1\0\0\0"


def test_a_site_without_a_page_for_404_gets_a_plain_one(client: FlaskClient, site: Path) -> None:
    (site / "404.html").unlink()
    response = client.get("/nothing")
    assert (response.status_code, response.mimetype) == (404, "text/plain")


@pytest.mark.parametrize("prefix", ["/repo/", "/repo", "repo"])
def test_a_site_below_a_path(
    site: Path, client_of: Callable[..., FlaskClient], prefix: str
) -> None:
    client = client_of(site, prefix=prefix)
    assert client.get("/repo/onnxsite.js").data == SCRIPT
    assert client.get("/repo/").data == b"<!doctype html><title>gallery</title>"
    assert client.get("/repo").status_code == 308
    assert client.get("/onnxsite.js").status_code == 404
    assert client.get("/repo/models/net").headers["Location"] == "./net/"


def test_not_a_site(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        create_app(tmp_path / "nothing")
    (tmp_path / "index.html").write_text("a page of somebody's")
    with pytest.raises(UsageError, match="no model's manifest"):
        create_app(tmp_path)
