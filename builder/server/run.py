"""Run the application on waitress: a production server in pure Python."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import waitress
import waitress.wasyncore
from flask import Flask

from builder.errors import UsageError
from builder.server.app import create_app, normal_prefix

THREADS = 8
"""A browser opens six connections to a host."""

ATTEMPTS = 20
"""Ports that are tried, one after the other."""

BACKLOG = 128

TAKEN = (errno.EADDRINUSE, errno.EACCES)


def serve(
    site: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    isolate: bool = True,
    prefix: str = "/",
    say: Callable[[str], None] | None = None,
) -> None:
    """Serve a built site until Ctrl-C.

    Args:
        site: A built site.
        host: Address to listen on; loopback keeps the site to this machine.
        port: The first port to try; if it is taken, the next free one is used and said. 0 lets the
            system choose.
        isolate: Send COOP, COEP and CORP.
        prefix: Path that the site lies at, such as `/repo/`.
        say: Takes a line for the user; standard output by default.

    Raises:
        UsageError: `site` isn't a built site, or no port is free.
    """
    say = say or _print
    app = create_app(site, isolate=isolate, prefix=prefix)
    with _listen(host, port) as listener:
        chosen = listener.getsockname()[1]
        if port not in (0, chosen):
            say(f"Port {port} is taken; using {chosen}.")
        say(f"Serving {site} at {_address(listener, prefix)} (Ctrl-C stops it)")
        if not _is_loopback(host):
            say("Other machines get neither WebGPU nor threads: browsers want https for both.")
        server = _server(app, listener)
        try:
            server.run()
        finally:
            server.close()


@contextmanager
def running(app: Flask | Callable[..., Any], *, prefix: str = "/") -> Iterator[str]:
    """Serve a WSGI application on a free loopback port as long as the block lasts.

    Yields:
        The address of its root, with a closing slash.
    """
    with _listen("127.0.0.1", 0) as listener:
        server = _server(app, listener)
        thread = threading.Thread(target=server.run, name="server", daemon=True)
        thread.start()
        try:
            yield _address(listener, prefix)
        finally:
            # The loop ends when it has nothing left to watch; only its own thread may close that.
            server.trigger.pull_trigger(lambda: waitress.wasyncore.close_all(server._map))
            thread.join()
            server.task_dispatcher.shutdown()


def _server(app: Flask | Callable[..., Any], listener: socket.socket) -> Any:
    # It warns whenever a request waits for a thread, which a page's burst of requests always does.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    return waitress.create_server(app, sockets=[listener], threads=THREADS, ident="onnxsite")


def _listen(host: str, port: int) -> socket.socket:
    """Bind the port, or the next one that is free."""
    last = min(port + ATTEMPTS, 65_536) if port else 1
    for candidate in range(port, last):
        try:
            # Sorted, so that a name with both kinds of address gives the IPv4 one.
            found = sorted(socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM))[0]
            return socket.create_server((host, candidate), family=found[0], backlog=BACKLOG)
        except OSError as error:
            if error.errno not in TAKEN:
                raise UsageError(
                    f"address {host}:{candidate}",
                    f"it can't be listened on ({error.strerror or error})",
                    "Choose another one with --host and --port.",
                ) from error
    raise UsageError(
        f"ports {port} to {last - 1}", "none of them is free", "Choose another one with --port."
    )


def _address(listener: socket.socket, prefix: str) -> str:
    host, port = listener.getsockname()[:2]
    # What listens everywhere is reached here by its loopback name.
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}{normal_prefix(prefix)}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
