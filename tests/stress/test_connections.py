"""Twenty thousand open connections, or as many as the file limit allows: served, idle, torn down.

The clients live in child processes, so that each process needs one descriptor per connection. Nothing here asserts
on a wall clock; the test's own limit bounds it.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import pytest

from tests.programs import ROOT

WANTED = 20_000
# Descriptors that are not for connections.
SPARE = 200

CLIENTS = """
import errno, resource, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
# Each source address has its own ports, none of those that the kernel gives to others: a server on all addresses, such
# as one of the interpreter's tests, could not have a port that a client has on one of them.
places = ((f"127.0.1.{host + int(sys.argv[3]) * 16}", own) for host in range(1, 16) for own in range(2000, 10000))
clients = []
while len(clients) < count:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        client.bind(next(places))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        client.close()
        continue
    client.connect(("127.0.0.1", port))
    clients.append(client)
print("connected", flush=True)
for command in sys.stdin:
    if command.strip() == "ask":
        for number, client in enumerate(clients):
            client.sendall(b"%08d" % number)
        for number, client in enumerate(clients):
            data = client.recv(8, socket.MSG_WAITALL)
            assert data == b"%08d" % number, (number, data)
        print("answered", flush=True)
    else:
        break
for client in clients:
    client.close()
print("closed", flush=True)
"""


class Echo(asyncio.Protocol):
    open_now: set[Any] = set()  # noqa: RUF012 - one set for all, cleared by the test
    all_gone: asyncio.Event

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.open_now.add(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_now.discard(self)
        if not self.open_now:
            self.all_gone.set()


async def say(process: asyncio.subprocess.Process, command: str, answer: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(command.encode() + b"\n")
    await expect(process, answer)


async def expect(process: asyncio.subprocess.Process, answer: str) -> None:
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().strip()
    assert line == answer, line


async def serve_many(loop: asyncio.AbstractEventLoop, count: int) -> None:
    Echo.open_now.clear()
    Echo.all_gone = asyncio.Event()
    async with await loop.create_server(Echo, "127.0.0.1", 0, backlog=1000) as server:
        port = server.sockets[0].getsockname()[1]
        shares = [count // 2, count - count // 2]
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", CLIENTS, str(port), str(share), str(index), stdin=-1, stdout=-1, cwd=ROOT
            )
            for index, share in enumerate(shares)
        ]
        try:
            await asyncio.gather(*(expect(process, "connected") for process in processes))
            for _ in range(2):
                await asyncio.gather(*(say(process, "ask", "answered") for process in processes))
            assert len(Echo.open_now) == count
            statistics = getattr(loop, "statistics", None)
            if statistics is not None:
                assert statistics().open_transports >= count
            await asyncio.gather(*(say(process, "end", "closed") for process in processes))
            await Echo.all_gone.wait()
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                process._transport.close()  # type: ignore[attr-defined]


@pytest.mark.time_limit(180)
def test_many_connections(loop: asyncio.AbstractEventLoop) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(WANTED, hard - SPARE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        print(f"{count} connections")
        loop.run_until_complete(asyncio.wait_for(serve_many(loop, count), 170))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
