"""What goes wrong between a host and a browser: every fault that the loader must survive."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from tests.browser.fault_server import HTML, PORTAL, Act, Fault, Handler


def cut_at(quarter: int) -> Act:
    """The connection ends after that many quarters."""

    def act(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
        handler.send(200, content[: len(content) * quarter // 4], headers, length=len(content))
        handler.cut()

    return act


def reset(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """Half of it, then a reset."""
    handler.send(200, content[: len(content) // 2], headers, length=len(content))
    # Time for what was sent to arrive: a reset throws away what is on its way.
    time.sleep(0.05)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def drop(handler: Handler, _content: bytes, _headers: dict[str, str]) -> None:
    """No answer at all."""
    handler.cut()


def stall(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """Half of it, then nothing until the browser goes."""
    handler.send(200, content[: len(content) // 2], headers, length=len(content))
    handler.connection.settimeout(20)
    with suppress(OSError):
        handler.connection.recv(1)
    handler.close_connection = True


def status(code: int, **more: str) -> Act:
    """An error page."""

    def act(handler: Handler, _content: bytes, _headers: dict[str, str]) -> None:
        fields = {name.replace("_", "-"): value for name, value in more.items()}
        handler.send(code, HTML, {"Content-Type": "text/html", **fields})

    return act


def body(change: Callable[[bytes], bytes], **more: str) -> Act:
    """A good answer with other bytes."""

    def act(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
        fields = {name.replace("_", "-"): value for name, value in more.items()}
        handler.send(200, change(content), {**headers, **fields})

    return act


def flip(content: bytes) -> bytes:
    """One bit is another."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def half(content: bytes) -> bytes:
    """An upload that broke off."""
    return content[: len(content) // 2]


def longer(content: bytes) -> bytes:
    """More than was built."""
    return content + content[:1000]


def page(_content: bytes) -> bytes:
    """What a host with a catch-all rule answers."""
    return HTML


def nothing(_content: bytes) -> bytes:
    """An empty file."""
    return b""


def other(content: bytes) -> bytes:
    """As long, but all of it different: another version of the file."""
    return bytes(len(content))


def without_ranges(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """The first answer is cut; after it the host always begins at the start."""
    if handler.server.hits == 1:
        cut_at(2)(handler, content, headers)
    else:
        handler.send(200, content, headers)


def changed_between(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """Half of another version, then the connection ends."""
    handler.send(200, other(content)[: len(content) // 2], headers, length=len(content))
    handler.cut()


def wrong_part(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """The first answer is cut; the next gives other bytes than those asked for."""
    if handler.start():
        handler.send_part(content, handler.start() // 2, headers)
    else:
        cut_at(2)(handler, content, headers)


def no_such_part(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """The first answer is cut; the host then denies that there is more."""
    if handler.start():
        handler.send(416, b"", {**headers, "Content-Range": f"bytes */{len(content)}"})
    else:
        cut_at(2)(handler, content, headers)


def trickle(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """A thin line: it takes a second, and is never silent for long."""
    handler.head(200, {**headers, "Content-Length": str(len(content))})
    step = len(content) // 20 + 1
    for start in range(0, len(content), step):
        handler.wfile.write(content[start : start + step])
        time.sleep(0.05)


def chunked_cut(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """No length in the headers, and the end comes early."""
    handler.head(200, {**headers, "Transfer-Encoding": "chunked"})
    piece = content[: len(content) // 2]
    handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    handler.cut()


def until_close(handler: Handler, content: bytes, headers: dict[str, str]) -> None:
    """No length in the headers: the end of the connection, too early, is the end of the file."""
    handler.head(200, {**headers, "Connection": "close"})
    handler.wfile.write(content[: len(content) // 2])
    handler.cut()


def redirect(to: str) -> Act:
    """Somewhere else."""

    def act(handler: Handler, _content: bytes, _headers: dict[str, str]) -> None:
        location = handler.path if to == "itself" else f"/{to}"
        handler.send(302, b"", {"Location": location})

    return act


def rows() -> Iterator[Fault]:
    """Every fault."""
    big = ("shard", "graph", "wasm")
    for target in big:
        for quarter in (1, 2, 3):
            yield Fault(f"the connection ends after {quarter}/4", target, cut_at(quarter))
        yield Fault("the connection is reset after a half", target, reset)
        yield Fault("the connection ends without an answer", target, drop)
        yield Fault("the file is cut off, and the host finds that right", target, body(half))
    for target in ("shard", "wasm"):
        yield Fault("nothing comes after a half", target, stall)
        yield Fault("it is cut at every try", target, cut_at(2), None, only_whole=True)
        yield Fault("no part can be asked for", target, without_ranges, 2)
        yield Fault("another version is there when it is resumed", target, changed_between)
        yield Fault("503 with Retry-After", target, status(503, Retry_After="1"))
        yield Fault("longer than it was built", target, body(longer))
        yield Fault("an empty answer", target, body(nothing))
    yield Fault("another part than the one asked for", "shard", wrong_part, 2)
    yield Fault("416 to every part", "shard", no_such_part, 2)
    yield Fault("a thin line", "shard", trickle)
    yield Fault("chunked, and the end comes early", "shard", chunked_cut)
    yield Fault("no length, and the end comes early", "shard", until_close)
    yield Fault("labelled gzip, and isn't", "shard", body(bytes, Content_Encoding="gzip"))
    yield Fault(
        "wrong bytes that the browser may cache for ever",
        "shard",
        body(flip, Cache_Control="max-age=31536000, immutable"),
    )
    for target in (*big, "reference", "api", "glue", "manifest"):
        yield Fault("404", target, status(404))
    for target in (*big, "manifest"):
        yield Fault("500", target, status(500))
    for target in (*big, "reference"):
        yield Fault("one bit is wrong", target, body(flip))
    for target in (*big, "manifest"):
        yield Fault("a web page in its place", target, body(page, Content_Type="text/html"))
        yield Fault("a captive portal", target, redirect(PORTAL))
    for target, code in (
        ("shard", "FetchError"),
        ("api", "FetchError"),
        ("manifest", "ManifestError"),
    ):
        yield Fault("404", target, status(404), None, code)
        yield Fault("500", target, status(500), None, code)
        yield Fault("the connection ends without an answer", target, drop, None, code)
        yield Fault(
            "a web page in its place", target, body(page, Content_Type="text/html"), None, code
        )
        yield Fault("a captive portal", target, redirect(PORTAL), None, code)
        yield Fault("it leads to itself", target, redirect("itself"), None, code)
    yield Fault("one bit is wrong", "shard", body(flip), None, "IntegrityError")
    yield Fault("cut off", "shard", body(half), None, "IntegrityError")
    yield Fault("longer than it was built", "shard", body(longer), None, "IntegrityError")
    yield Fault("a web page labelled as bytes", "wasm", body(page), None, "IntegrityError")
    yield Fault("nothing comes after a half", "shard", stall, None, "FetchError")


FAULTS: tuple[Fault, ...] = tuple(rows())

LINES = {
    "shard": "weights",
    "graph": "graph",
    "wasm": "runtime's wasm",
    "api": "runtime's script",
    "glue": "wasm's script",
    "reference": "stored reference",
    "manifest": "manifest",
}
"""What the targets are called in the table."""


def table() -> str:
    """The faults as a table in Markdown."""
    lines = ["| file | what goes wrong | how often | in the end |", "|---|---|---|---|"]
    for fault in FAULTS:
        often = "always" if fault.times is None else {1: "once", 2: "twice"}[fault.times]
        end = f"`{fault.code}`, which names the address" if fault.code else "right outputs"
        lines.append(f"| {LINES[fault.target]} | {fault.what} | {often} | {end} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
