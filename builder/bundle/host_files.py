"""Write the configuration that tells a host which headers to send: one function for each kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from builder.bundle.headers import (
    CONTENT_NAMED,
    ENTRY_POINTS,
    IMMUTABLE,
    ISOLATION,
    MIME_TYPES,
    NO_SNIFFING,
    REVALIDATE,
)

Kind = Literal["none", "jekyll", "_headers", "netlify", "vercel", "nginx", "apache"]

OwnHeaders = Mapping[str, Mapping[str, str]]
"""Headers of single files, by path below the site's root, beside those that every file has."""

EMPTY: Mapping[str, str] = {}

EVERYWHERE = {**ISOLATION, **NO_SNIFFING}


def _none(_own: OwnHeaders) -> Mapping[str, str]:
    return {}


def _jekyll(_own: OwnHeaders) -> Mapping[str, str]:
    """GitHub Pages runs Jekyll, which leaves files out, unless told otherwise."""
    return {".nojekyll": ""}


def _rules(own: OwnHeaders) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(path pattern, headers) where a later rule adds to an earlier one; a header has one value."""
    yield "*", EVERYWHERE
    for folder in CONTENT_NAMED:
        yield f"{folder}/*", {"Cache-Control": IMMUTABLE}
    for path in ENTRY_POINTS:
        yield path, {"Cache-Control": REVALIDATE}
    yield from own.items()


def _headers_file(own: OwnHeaders) -> Mapping[str, str]:
    lines: list[str] = []
    for path, headers in _rules(own):
        lines += [f"/{path}", *(f"  {name}: {value}" for name, value in headers.items())]
    return {"_headers": "\n".join(lines) + "\n"}


def _netlify(own: OwnHeaders) -> Mapping[str, str]:
    """`_headers` is read however the site is uploaded; netlify.toml where a repository holds it."""
    return {
        **_headers_file(own),
        "netlify.toml": '# The headers are in _headers.\n[build]\npublish = "."\n',
    }


def _vercel(own: OwnHeaders) -> Mapping[str, str]:
    def rule(path: str, headers: Mapping[str, str]) -> object:
        pairs = [{"key": name, "value": value} for name, value in headers.items()]
        source = "/" + re.escape(path).replace(r"\*", "(.*)").replace(r"\-", "-")
        return {"source": source, "headers": pairs}

    rules = [rule(path, headers) for path, headers in _rules(own)]
    return {"vercel.json": json.dumps({"trailingSlash": True, "headers": rules}, indent=2) + "\n"}


def _nginx(own: OwnHeaders) -> Mapping[str, str]:
    def location(match: str, caching: str, more: Mapping[str, str] = EMPTY) -> Iterator[str]:
        yield f"location {match} {{"
        # add_header here replaces those around it, so every location carries all of them.
        for name, value in {**EVERYWHERE, **more, "Cache-Control": caching}.items():
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
        # Of regular expressions, the first that matches is used.
        *(
            line
            for path, headers in own.items()
            for line in location(f"~ /{re.escape(path)}$", IMMUTABLE, headers)
        ),
        *location(f"~ /({folders})/", IMMUTABLE),
        "location ~ /\\. { return 404; }",
    ]
    return {"nginx.conf": "\n".join(lines) + "\n"}


def _apache(own: OwnHeaders) -> Mapping[str, str]:
    folders = "|".join(CONTENT_NAMED)
    lines = [
        "DirectoryIndex index.html",
        "# From the root of the domain: for a site in a folder, put the folder before it.",
        "ErrorDocument 404 /404.html",
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
        *(
            line
            for path, headers in own.items()
            for line in (
                f'    <If "%{{REQUEST_URI}} =~ m#/{re.escape(path)}$#">',
                *(f'        Header set {name} "{value}"' for name, value in headers.items()),
                "    </If>",
            )
        ),
        "</IfModule>",
    ]
    return {".htaccess": "\n".join(lines) + "\n"}


WRITERS: dict[Kind, Callable[[OwnHeaders], Mapping[str, str]]] = {
    "none": _none,
    "jekyll": _jekyll,
    "_headers": _headers_file,
    "netlify": _netlify,
    "vercel": _vercel,
    "nginx": _nginx,
    "apache": _apache,
}
"""Each gives the text of its files by their names in the site's root."""
