"""A host of a site that goes wrong when it is told to.

Real sockets: connections are cut, reset and left hanging, not imitated.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from builder.server import files

HTML = b"<!doctype html><title>our single-page application</title><p>Not what was asked for."

PORTAL = "portal"
"""Where a captive portal sends everybody."""


class Handler(BaseHTTPRequestHandler):
    """Answers like an ordinary host that compresses nothing, but for the fault of the moment."""

    protocol_version = "HTTP/1.1"
    server: FaultServer

    def do_GET(self) -> None:
        """Answer, or do what the fault does."""
        path = self.path.partition("?")[0].lstrip("/")
        fault = self.server.fault_for(path)
        if path == PORTAL:
            self.send(200, HTML, {"Content-Type": "text/html"})
            return
        found = files.find(self.server.root, path)
        if found is None:
            self.send(404, HTML, {"Content-Type": "text/html"})
            return
        content = found.path.read_bytes()
        headers = {"Content-Type": found.mimetype, **self.server.headers}
        start = self.start()
        if fault is not None and not (fault.only_whole and start):
            self.server.hits += 1
            with suppress(ConnectionError):
                fault.act(self, content, headers)
            return
        if start:
            self.server.resumed.append((path, start))
            self.send_part(content, start, headers)
        else:
            self.send(200, content, headers)

    def start(self) -> int:
        """The first byte asked for; 0 without a range."""
        return int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])

    def send_part(self, content: bytes, start: int, headers: Mapping[str, str]) -> None:
        """The rest of a file, from `start`."""
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send(206, content[start:], {**headers, "Content-Range": span})

    def send(
        self, status: int, body: bytes, headers: Mapping[str, str], *, length: int | None = None
    ) -> None:
        """A whole answer, or one that says `length` and has another body."""
        self.head(
            status, {**headers, "Content-Length": str(len(body) if length is None else length)}
        )
        with suppress(ConnectionError):
            self.wfile.write(body)
            self.wfile.flush()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def cut(self) -> None:
        """End the connection, in order but early."""
        self.wfile.flush()
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


Act = Callable[[Handler, bytes, dict[str, str]], None]


@dataclass(frozen=True)
class Fault:
    """A row of `FAULTS`.

    Attributes:
        what: For people.
        target: Which file meets it: a key of `targets`.
        act: Commits it.
        times: How many requests in a row meet it; None for all.
        code: The error that a visitor gets; empty if the model loads in the end.
        only_whole: Requests for a part of the file are answered rightly.
    """

    what: str
    target: str
    act: Act
    times: int | None = 1
    code: str = ""
    only_whole: bool = False

    @property
    def name(self) -> str:
        """For the test's id."""
        lasting = "always" if self.times is None else f"{self.times}x"
        return f"{self.target}: {self.what}, {lasting}"


class FaultServer(ThreadingHTTPServer):
    """Serves a site. `arm` gives it a fault, `disarm` takes it away."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.headers = {"Cache-Control": "no-store"}
        self.disarm()

    @property
    def url(self) -> str:
        """The site's address."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def arm(self, fault: Fault | None, paths: frozenset[str] = frozenset()) -> None:
        """Let requests for `paths` meet `fault`."""
        self.fault, self.paths = fault, paths
        self.left = fault.times if fault else None
        self.hits = 0
        self.resumed: list[tuple[str, int]] = []

    def disarm(self) -> None:
        """Answer like an ordinary host again."""
        self.arm(None)

    def fault_for(self, path: str) -> Fault | None:
        """The fault that a request meets, which is then counted."""
        if self.fault is None or path not in self.paths:
            return None
        if self.left is not None:
            if self.left == 0:
                return None
            self.left -= 1
        return self.fault

    def handle_error(self, request: object, client_address: object) -> None:
        """Browsers leave in the middle of answers here, as they should."""


@contextmanager
def serving(root: Path) -> Iterator[FaultServer]:
    """A server of the site for as long as the block lasts."""
    with FaultServer(root) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
