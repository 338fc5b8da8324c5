"""Write the configuration that tells a host which headers to send: one function for each kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from builder.bundle.headers import (
    CONTENT_NAMED,
    IMMUTABLE,
    ISOLATION,
    MIME_TYPES,
    NO_SNIFFING,
    REVALIDATE,
)

Kind = Literal["none", "jekyll", "_headers", "netlify", "vercel", "nginx", "apache"]

EVERYWHERE = {**ISOLATION, **NO_SNIFFING}


def _none() -> Mapping[str, str]:
    return {}


def _jekyll() -> Mapping[str, str]:
    """GitHub Pages runs Jekyll, which leaves files out, unless told otherwise."""
    return {".nojekyll": ""}


def _headers_file() -> Mapping[str, str]:
    """`_headers`: a later rule adds to an earlier one. Entry points are revalidated by default."""
    lines = ["/*", *(f"  {name}: {value}" for name, value in EVERYWHERE.items())]
    for folder in CONTENT_NAMED:
        lines += [f"/{folder}/*", f"  Cache-Control: {IMMUTABLE}"]
    return {"_headers": "\n".join(lines) + "\n"}


def _netlify() -> Mapping[str, str]:
    """`_headers` is read however the site is uploaded; netlify.toml where a repository holds it."""
    return {
        **_headers_file(),
        "netlify.toml": '# The headers are in _headers.\n[build]\npublish = "."\n',
    }


def _vercel() -> Mapping[str, str]:
    def rule(source: str, headers: Mapping[str, str]) -> object:
        pairs = [{"key": name, "value": value} for name, value in headers.items()]
        return {"source": source, "headers": pairs}

    rules = [rule("/(.*)", EVERYWHERE)]
    rules += [rule(f"/{folder}/(.*)", {"Cache-Control": IMMUTABLE}) for folder in CONTENT_NAMED]
    return {"vercel.json": json.dumps({"trailingSlash": True, "headers": rules}, indent=2) + "\n"}


def _nginx() -> Mapping[str, str]:
    def location(match: str, caching: str) -> Iterator[str]:
        yield f"location {match} {{"
        # add_header here replaces those around it, so every location carries all of them.
        for name, value in {**EVERYWHERE, "Cache-Control": caching}.items():
            yield f'    add_header {name} "{value}" always;'
        yield "    gzip_static on;"
        yield "    # With the ngx_brotli module: brotli_static on;"
        yield "    default_type application/octet-stream;"
        yield "    types {"
        for ending, kind in MIME_TYPES.items():
            yield f"        {kind} {ending.removeprefix('.')};"
        yield "    }"
        yield "}"

    folders = "|".join(CONTENT_NAMED)
    lines = [
        "# Include this inside the server block whose root is the site.",
        "charset utf-8;",
        "charset_types text/html text/css text/javascript text/plain application/json;",
        "error_page 404 /404.html;",
        *location("/", REVALIDATE),
        *location(f"~ /({folders})/", IMMUTABLE),
        "location ~ /\\. { return 404; }",
    ]
    return {"nginx.conf": "\n".join(lines) + "\n"}


def _apache() -> Mapping[str, str]:
    folders = "|".join(CONTENT_NAMED)
    lines = [
        "DirectoryIndex index.html",
        "AddDefaultCharset utf-8",
        *(f"AddType {kind} {ending}" for ending, kind in MIME_TYPES.items()),
        "",
        "# Precompressed twins: the type comes from the ending before .br or .gz.",
        "RemoveType .gz .br",
        "AddEncoding br .br",
        "AddEncoding gzip .gz",
        "<IfModule mod_rewrite.c>",
        "    RewriteEngine On",
        *(
            line
            for coding, ending in (("br", ".br"), ("gzip", ".gz"))
            for line in (
                f"    RewriteCond %{{HTTP:Accept-Encoding}} \\b{coding}\\b",
                f"    RewriteCond %{{REQUEST_FILENAME}}{ending} -f",
                f"    RewriteRule ^(.+)$ $1{ending} [END,E=no-gzip:1,E=no-brotli:1]",
            )
        ),
        "</IfModule>",
        "",
        "<IfModule mod_headers.c>",
        *(f'    Header always set {name} "{value}"' for name, value in EVERYWHERE.items()),
        "    Header merge Vary Accept-Encoding",
        f'    Header set Cache-Control "{REVALIDATE}"',
        f'    <If "%{{REQUEST_URI}} =~ m#/({folders})/#">',
        f'        Header set Cache-Control "{IMMUTABLE}"',
        "    </If>",
        "</IfModule>",
    ]
    return {".htaccess": "\n".join(lines) + "\n"}


WRITERS: dict[Kind, Callable[[], Mapping[str, str]]] = {
    "none": _none,
    "jekyll": _jekyll,
    "_headers": _headers_file,
    "netlify": _netlify,
    "vercel": _vercel,
    "nginx": _nginx,
    "apache": _apache,
}
"""Each gives the text of its files by their names in the site's root."""
