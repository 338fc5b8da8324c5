"""Hosts refuse what they don't take, and their own parsers read the configuration as meant."""

from __future__ import annotations

import json
import re

import pytest

from builder.bundle import hosts
from builder.errors import HostError

MIB = 1024**2

# Limits as the hosts' documentation states them.
OVER = [
    ("cloudflare-pages", {"files/a.bin": 25 * MIB + 1}, r"files/a\.bin.*26,214,401.*26,214,400"),
    ("cloudflare-pages", {f"f{i}": 1 for i in range(20_001)}, "20,001 files"),
    ("github-pages", {"files/a.bin": 100 * MIB + 1}, r"files/a\.bin.*104,857,600"),
    ("github-pages", {f"{i}.bin": 90 * MIB for i in range(11)}, "1,038,090,240 bytes"),
    ("npm-cdn", {"files/a.bin": 51_000_000}, r"files/a\.bin"),
    ("vercel", {"a": 60_000_000, "b": 60_000_000}, "120,000,000 bytes"),
]


@pytest.mark.parametrize(("host", "files", "said"), OVER)
def test_what_a_host_refuses_is_named(host: str, files: dict[str, int], said: str) -> None:
    with pytest.raises(HostError, match=said):
        hosts.check(hosts.HOSTS[host], files)


@pytest.mark.parametrize("host", hosts.HOSTS)
def test_every_host_takes_shards_of_the_default_size(host: str) -> None:
    hosts.check(hosts.HOSTS[host], {f"files/{i}.bin": 8 * MIB for i in range(5)})


def files(host: str) -> dict[str, str]:
    return {name: text.decode() for name, text in hosts.host_files(hosts.HOSTS[host]).items()}


ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
"""What gives a page shared memory: developer.mozilla.org, crossOriginIsolated."""


@pytest.mark.parametrize("host", ["cloudflare-pages", "netlify"])
def test_headers_files_isolate_all_and_keep_content_named_files(host: str) -> None:
    rules: dict[str, dict[str, str]] = {}
    path = ""
    for line in files(host)["_headers"].splitlines():
        if line.startswith("/"):
            path = line
            rules[path] = {}
        else:
            name, _, value = line.strip().partition(": ")
            rules[path][name] = value
    assert rules["/*"].items() >= ISOLATED.items()
    for folder in ("files", "assets"):
        assert "immutable" in rules[f"/{folder}/*"]["Cache-Control"]
    assert "Cache-Control" not in rules["/*"], "Cloudflare would join both values"


def test_vercel_gets_the_same() -> None:
    rules = json.loads(files("vercel")["vercel.json"])["headers"]
    everywhere = {entry["key"]: entry["value"] for entry in rules[0]["headers"]}
    assert rules[0]["source"] == "/(.*)"
    assert everywhere.items() >= ISOLATED.items()
    assert {rule["source"] for rule in rules[1:]} == {"/files/(.*)", "/assets/(.*)"}


def test_github_gets_nothing_but_a_word_to_jekyll() -> None:
    assert files("github-pages") == {".nojekyll": ""}
    assert not hosts.HOSTS["github-pages"].sets_headers
    assert files("generic") == files("s3") == files("npm-cdn") == {}


def test_nginx_locations_carry_every_header() -> None:
    text = files("nginx")["nginx.conf"]
    assert text.count("{") == text.count("}")
    locations = re.findall(r"location ([^{]+) \{(.*?)\n\}", text, re.DOTALL)
    served = [body for match, body in locations if "return" not in body]
    assert len(served) == 2
    for body in served:
        for name, value in ISOLATED.items():
            assert f'add_header {name} "{value}" always;' in body
        assert re.search(r"application/wasm +wasm;", body)
        assert re.search(r"text/javascript +mjs;|text/javascript +js;", body)


def test_apache_rewrites_to_twins_only_where_they_are() -> None:
    lines = files("apache")[".htaccess"].splitlines()
    for coding, ending in (("br", ".br"), ("gzip", ".gz")):
        at = next(i for i, line in enumerate(lines) if rf"\b{coding}\b" in line)
        assert lines[at + 1].strip() == f"RewriteCond %{{REQUEST_FILENAME}}{ending} -f"
        assert f"$1{ending}" in lines[at + 2]
