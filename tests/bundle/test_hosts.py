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


WORKER = "assets/worker-0123456789ab.js"
OWN = {WORKER: {"Content-Security-Policy": "default-src 'none'; script-src 'self'"}}
ENTRIES = ("", "404.html", "onnxsite.js", "sw.js", "site.webmanifest", "models/net/manifest.json")


def files(host: str) -> dict[str, str]:
    written = hosts.host_files(hosts.HOSTS[host], OWN)
    return {name: text.decode() for name, text in written.items()}


def merged(rules: list[tuple[str, dict[str, str]]], path: str) -> dict[str, list[str]]:
    """What a host that adds up all rules that match sends for a path: values by header."""
    sent: dict[str, list[str]] = {}
    for pattern, headers in rules:
        if re.fullmatch(pattern, path):
            for name, value in headers.items():
                sent.setdefault(name, []).append(value)
    return sent


def check_merged(rules: list[tuple[str, dict[str, str]]]) -> None:
    """Every path is isolated, has one caching rule, and only the worker a policy."""
    for path in (*ENTRIES, WORKER, "files/0.bin"):
        sent = merged(rules, f"/{path}")
        assert all(sent[name] == [value] for name, value in ISOLATED.items())
        immutable = path.startswith(("files/", "assets/"))
        assert sent["Cache-Control"] == [IMMUTABLE if immutable else "no-cache"], path
        policy = sent.get("Content-Security-Policy")
        assert policy == ([*OWN[WORKER].values()] if path == WORKER else None)


IMMUTABLE = "public, max-age=31536000, immutable"


ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
"""What gives a page shared memory: developer.mozilla.org, crossOriginIsolated."""


@pytest.mark.parametrize("host", ["cloudflare-pages", "netlify"])
def test_headers_files_isolate_all_and_keep_content_named_files(host: str) -> None:
    rules: list[tuple[str, dict[str, str]]] = []
    for line in files(host)["_headers"].splitlines():
        if line.startswith("/"):
            rules.append((re.escape(line).replace(r"\*", ".*"), {}))
        else:
            name, _, value = line.strip().partition(": ")
            rules[-1][1][name] = value
    # Cloudflare joins the values of a header from every rule that matches.
    check_merged(rules)


def test_vercel_gets_the_same() -> None:
    rules = json.loads(files("vercel")["vercel.json"])["headers"]
    check_merged(
        [(rule["source"], {h["key"]: h["value"] for h in rule["headers"]}) for rule in rules]
    )


def test_github_gets_nothing_but_a_word_to_jekyll() -> None:
    assert files("github-pages") == {".nojekyll": ""}
    assert not hosts.HOSTS["github-pages"].sets_headers
    assert files("generic") == files("s3") == files("npm-cdn") == {}


def test_nginx_locations_carry_every_header() -> None:
    text = files("nginx")["nginx.conf"]
    assert text.count("{") == text.count("}")
    locations = re.findall(r"location ([^{]+) \{(.*?)\n\}", text, re.DOTALL)
    served = [body for match, body in locations if "return" not in body]
    assert len(served) == 3
    policies = [body for body in served if "Content-Security-Policy" in body]
    # Of regular expressions, nginx takes the first that matches.
    assert policies == [served[1]]
    assert re.search(locations[1][0].removeprefix("~ "), f"/{WORKER}")
    for body in served:
        for name, value in ISOLATED.items():
            assert f'add_header {name} "{value}" always;' in body
        assert re.search(r"application/wasm +wasm;", body)
        assert re.search(r"text/javascript +mjs;|text/javascript +js;", body)


def test_apache_rewrites_to_twins_only_where_they_are() -> None:
    lines = files("apache")[".htaccess"].splitlines()
    assert "ErrorDocument 404 /404.html" in lines
    at = next(i for i, line in enumerate(lines) if "Content-Security-Policy" in line)
    assert re.search(re.findall(r"m#(.*)#\"", lines[at - 1])[0], f"/{WORKER}")
    for coding, ending in (("br", ".br"), ("gzip", ".gz")):
        at = next(i for i, line in enumerate(lines) if rf"\b{coding}\b" in line)
        assert lines[at + 1].strip() == f"RewriteCond %{{REQUEST_FILENAME}}{ending} -f"
        assert f"$1{ending}" in lines[at + 2]
