"""Files from web servers."""

from __future__ import annotations

import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from builder.errors import FetchError
from builder.fetch.reference import Reference

TIMEOUT = 60
"""Seconds without a byte."""

AGENT = "onnxsite"

BY_HAND = "Download the file by hand and name its path."

STATUSES = {
    401: ("it wants you to sign in", BY_HAND),
    403: ("the server doesn't allow it", BY_HAND),
    404: ("there is no such file on the server", "Check the address, case included."),
    410: ("the file is gone from the server", "Look for where it has moved."),
    429: ("the server has had too many requests", "Try again later."),
}
"""Why and what to do, by HTTP status."""

PAGES = (b"<!doctype", b"<html", b"<head", b"<!--")
"""How web pages begin."""


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http: what answers there may be anybody."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise FetchError(
                req.full_url, f"it leads to an address without https, {newurl}", BY_HAND
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def extract(reference: Reference, target: Path) -> None:
    """Download the file at an address, by the system's proxy if there is one.

    Raises:
        FetchError: No network, an error's status, a web page instead of a file, or a file cut
            short.
    """
    address = reference.name
    request = urllib.request.Request(address, headers={"User-Agent": AGENT})  # noqa: S310
    opener = urllib.request.build_opener(_NoDowngrade)
    try:
        with opener.open(request, timeout=TIMEOUT) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
            where, length = answer.geturl(), answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        error.close()
        why, remedy = STATUSES.get(error.code, ("it can't be downloaded", "Try again later."))
        raise FetchError(address, f"{why} (HTTP {error.code})", remedy) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise FetchError(
            address, f"the server can't be reached ({reason})", "Check the network and proxy."
        ) from error
    except http.client.HTTPException as error:
        raise FetchError(
            address, f"the connection ended too early ({error!r})", "Try again."
        ) from error
    size = target.stat().st_size
    if length is not None and size != int(length):
        raise FetchError(
            address, f"it was cut: {size} bytes came, {length} were promised", "Try again."
        )
    _judge(address, where, target)


def _judge(address: str, where: str, target: Path) -> None:
    """See that it isn't a web page: one to sign in, say, or one about the file."""
    with target.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if not head.startswith(PAGES):
        return
    led = urlsplit(where)
    moved = f" of {led.netloc}{led.path}, where it led to" if where != address else ""
    raise FetchError(
        address,
        f"it was answered with a web page{moved}, not a file",
        "Name the address of the file itself; if one must sign in, download it by hand.",
    )
