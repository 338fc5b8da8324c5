"""What a site is kept by and held against: its service worker's list, integrity and policy."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from builder import pipeline, plan
from builder.bundle.hosts import HOSTS, host_files
from builder.recipe import Recipe

TITLE = """<script>alert(1)</script> & "Söhne" 'x'"""
DOCS = Path(__file__).resolve().parents[2] / "docs" / "hosting.md"


def build(source: Path, name: str, **settings: Any) -> Path:
    out = source.with_name(name)
    recipe = Recipe(host="github-pages", **settings)
    pipeline.run(plan.make([str(source)], out, recipe=recipe, flags=plan.Flags(dtypes=["fp32"])))
    return out


def described(site: Path) -> Any:
    """What the service worker was told."""
    line, _, _ = (site / "sw.js").read_text().partition("\n")
    return json.loads(line.removeprefix("const SITE = ").removesuffix(";"))


def sha384(path: Path) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(path.read_bytes()).digest()).decode()


def test_the_list_holds_every_page_and_script_with_its_hash(model_file: Path) -> None:
    site = build(model_file, "one", title="One")
    told = described(site)
    listed = dict(told["shell"])
    for path, integrity in listed.items():
        file = site / path
        assert integrity == sha384(file / "index.html" if path in ("", "models/net/") else file)
    assert {"", "404.html", "onnxsite.js", "models/net/", "models/net/manifest.json"} <= {*listed}
    assets = {p.relative_to(site).as_posix() for p in site.glob("assets/**/*") if p.is_file()}
    assert assets <= {*listed}
    scripts = {p.relative_to(site).as_posix() for p in site.glob("files/*.mjs")}
    assert scripts <= {*told["files"]}
    assert all((site / path).is_file() for path in told["files"])

    same = build(model_file, "same", title="One")
    assert (same / "sw.js").read_bytes() == (site / "sw.js").read_bytes()
    other = described(build(model_file, "other", title="Two"))
    assert other["version"] != told["version"]
    assert other["files"] == told["files"]


def test_without_offline_the_worker_has_nothing_to_serve(model_file: Path) -> None:
    site = build(model_file, "without", offline=False)
    assert described(site) is None
    page = (site / "index.html").read_text()
    assert "assets/site-" not in page


def test_pages_hold_their_scripts_to_hashes_and_names_are_text(model_file: Path) -> None:
    site = build(model_file, "named", title=TITLE)
    for page in (site / "index.html", site / "models" / "net" / "index.html"):
        text = page.read_text()
        assert "<script>alert" not in text
        assert TITLE in html.unescape(text)
        tags = re.findall(r"<(?:script|link)[^>]*(?:stylesheet|module)[^>]*>", text)
        assert len(tags) > 1
        for tag in tags:
            attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
            file = page.parent / (attributes.get("src") or attributes["href"])
            assert attributes["integrity"] == sha384(file)
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        rules = dict(rule.split(" ", 1) for rule in html.unescape(policy).split("; "))
        assert rules["script-src"] == rules["worker-src"] == rules["connect-src"] == "'self'"
        assert rules["default-src"] == "'none'"
        assert "require-trusted-types-for" in rules
    app = json.loads((site / "site.webmanifest").read_text())
    assert app["name"] == TITLE
    assert all((site / icon["src"]).is_file() for icon in app["icons"])


@pytest.mark.parametrize("host", HOSTS)
def test_the_table_of_hosts_says_what_is_built(host: str) -> None:
    (row,) = re.findall(rf"^\| `{host}` \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    profile = HOSTS[host]
    units = {"MiB": 1024**2, "GiB": 1024**3, "MB": 10**6, "GB": 10**9}

    def in_bytes(cell: str) -> int | None:
        found = re.search(r"([0-9]+) ([MG]i?B)", cell)
        return int(found[1]) * units[found[2]] if found else None

    assert (in_bytes(cells[0]), in_bytes(cells[1])) == (profile.max_file, profile.max_total)
    files = re.search(r"([0-9,]+) files", cells[1])
    assert (int(files[1].replace(",", "")) if files else None) == profile.max_files
    written = re.findall(r"`([^`]+)`", cells[2])
    assert written == [*host_files(profile, {})]
    assert (cells[3] == "no") == (not profile.sets_headers)
    assert cells[4] == ("yes" if profile.compresses else "sends the twins" * profile.negotiates)
