"""The Flask application: from a request to a file of the site, with the headers it needs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from flask import Flask, Response, request, send_file
from werkzeug.exceptions import NotFound

from builder.bundle.headers import ISOLATION, NO_SNIFFING, REVALIDATE
from builder.errors import UsageError
from builder.server import files


def create_app(site: Path, *, isolate: bool = True, prefix: str = "/") -> Flask:
    """A WSGI application that serves `site`.

    Args:
        site: A built site.
        isolate: Send COOP, COEP and CORP. Without them a page has no shared memory, as on hosts
            that can't set headers.
        prefix: Path that the site lies at, such as `/repo/`; everything outside is 404.

    Raises:
        UsageError: `site` isn't there or isn't a built site.
    """
    root = check_site(site)
    prefix = normal_prefix(prefix)
    app = Flask("onnxsite", static_folder=None, template_folder=None)
    headers = {**NO_SNIFFING, **(ISOLATION if isolate else {})}

    def show(path: str = "") -> Response:
        return _answer(root, path)

    for rule in (prefix, f"{prefix}<path:path>"):
        app.add_url_rule(rule, "show", show, methods=["GET"], provide_automatic_options=False)

    def not_found(_error: NotFound) -> Response:
        page = files.find(root, "404.html")
        if page is None:
            return Response("Not found\n", 404, mimetype="text/plain")
        response = Response(page.path.read_bytes(), 404, mimetype=page.mimetype)
        response.headers["Cache-Control"] = REVALIDATE
        return response

    def add_headers(response: Response) -> Response:
        response.headers.update(headers)
        return response

    app.register_error_handler(NotFound, not_found)
    app.after_request(add_headers)
    return app


def check_site(site: Path) -> Path:
    """The site's folder, resolved.

    Raises:
        UsageError: It isn't there or isn't a built site.
    """
    remedy = "Build one with `python -m builder build SOURCE -o FOLDER`."
    if not site.is_dir():
        raise UsageError(str(site), "there is no such folder", remedy)
    if not (site / "index.html").is_file() or not any(site.glob("models/*/manifest.json")):
        raise UsageError(str(site), "it isn't a built site: it has no model's manifest", remedy)
    return site.resolve()


def normal_prefix(prefix: str) -> str:
    """`repo`, `/repo` and `/repo/` all mean `/repo/`."""
    inner = prefix.strip("/")
    return f"/{inner}/" if inner else "/"


def _answer(root: Path, path: str) -> Response:
    found = files.find(root, path)
    if found is None:
        if files.is_folder(root, path):
            return _to_the_slash(path)
        raise NotFound
    twin = found.negotiate(request.accept_encodings)
    # The type is always given: left to itself, send_file would take x.js.gz for a gzipped script.
    response = send_file(twin.path, mimetype=found.mimetype, conditional=True, etag=twin.etag)
    # It names the twin, not what was asked for.
    response.headers.remove("Content-Disposition")
    if twin.encoding:
        response.headers["Content-Encoding"] = twin.encoding
    if found.has_twins:
        response.vary.add("Accept-Encoding")
    response.headers["Cache-Control"] = found.cache_control
    if found.policy:
        response.headers["Content-Security-Policy"] = found.policy
    return response


def _to_the_slash(path: str) -> Response:
    """Relative, so that it holds behind any proxy and can't lead to another host."""
    query = f"?{request.query_string.decode('latin-1')}" if request.query_string else ""
    response = Response(status=302)
    response.headers["Location"] = f"./{quote(path.rsplit('/', 1)[-1])}/{query}"
    response.headers["Cache-Control"] = REVALIDATE
    return response
