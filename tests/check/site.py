"""A server of the tests' own, on the running loop: it counts who asks."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


@dataclass
class Site:
    """`http://127.0.0.N:port/...`, for any N."""

    port: int = 0
    delay_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    """Targets of requests."""
    under_way: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    """By Host: requests at the same time."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    gated: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody waits at the gate."""
    free: int | None = None
    """So many requests are answered before the gate."""
    served: set[asyncio.Task[None] | None] = field(default_factory=set)

    def gate_after(self, count: int) -> None:
        """Requests after so many wait for `open_gate`."""
        self.free = count
        self.gate.clear()
        self.gated.clear()

    def open_gate(self) -> None:
        self.free = None
        self.gate.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.add(asyncio.current_task())
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                host = head.lower().partition("host: ")[2].partition("\r\n")[0]
                self.asked[head.split(" ")[1]] += 1
                self.under_way[host] += 1
                self.most[host] = max(self.most[host], self.under_way[host])
                if self.free is not None and sum(self.asked.values()) > self.free:
                    self.gated.set()
                    await self.gate.wait()
                await asyncio.sleep(self.delay_s)
                self.under_way[host] -= 1
                writer.write(ANSWER)
                await writer.drain()


@asynccontextmanager
async def serving(delay_s: float = 0.0, context: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site(delay_s=delay_s)
    server = await asyncio.start_server(site.serve, "0.0.0.0", 0, ssl=context)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        tasks = [task for task in site.served if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Transports close in the loop's next turn.
        await asyncio.sleep(0)
