"""A proxy on the loopback that is as slow as a network, and counts what passes.

A browser's own throttle doesn't reach workers.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

CHUNK = 16 * 1024


@dataclass(frozen=True)
class Network:
    """What passes through it.

    Attributes:
        rate: Bytes a second, all connections together; infinite if nothing holds them back.
        latency: Seconds before a request is passed on.
    """

    rate: float = float("inf")
    latency: float = 0.0


class Proxy:
    """Passes connections on to the host of `target`, and counts the bytes of its answers."""

    def __init__(self, target: str, network: Network) -> None:
        self.host, self.port = urlsplit(target).hostname, urlsplit(target).port
        self.network = network
        self.bytes = 0
        self._free_at = 0.0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""
        upstream, to_upstream = await asyncio.open_connection(self.host, self.port)
        await asyncio.gather(
            self._up(reader, to_upstream), self._down(upstream, writer), return_exceptions=True
        )

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await asyncio.sleep(self.network.latency)
            writer.write(chunk)
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            self.bytes += len(chunk)
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + len(chunk) / self.network.rate
            if self._free_at > now:
                await asyncio.sleep(self._free_at - now)
            writer.write(chunk)
            await writer.drain()
        writer.close()


@contextmanager
def through(target: str, network: Network) -> Iterator[tuple[str, Proxy]]:
    """The proxy's address, and the proxy, for as long as the block lasts."""
    loop = asyncio.new_event_loop()  # of its own thread: Playwright has one in this
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = Proxy(target, network)
    starting = asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", proxy
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: asyncio.Server) -> None:
    """Cut the connections that the browser keeps open."""
    server.close()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
