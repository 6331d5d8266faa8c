"""loop.sendfile: the real system call on plain sockets, the fallback on TLS; the order with writes around it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import client_context, server_context
from tests.conftest import cancelled, settle
from tests.loops import new_loop
from tests.protocols import Recorder

CONTENT = os.urandom(1000) * 2500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(CONTENT)
    return made


async def connected(loop: asyncio.AbstractEventLoop, tls: bool) -> tuple[asyncio.Server, Any, Recorder, Recorder]:
    served: asyncio.Future[Recorder] = loop.create_future()

    class Sink(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            served.set_result(self)

    server = await loop.create_server(Sink, "127.0.0.1", 0, ssl=server_context() if tls else None)
    transport, protocol = await loop.create_connection(
        Recorder, *server.sockets[0].getsockname(), ssl=client_context() if tls else None
    )
    return server, transport, protocol, await served


async def ended(server: asyncio.Server, transport: Any, sink: Recorder) -> None:
    transport.close()
    await sink.wait_lost()
    server.close()
    await server.wait_closed()
    for _ in range(5):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("offset", "count"), [(0, None), (10, 1000), (1_000_000, None)])
async def test_a_file_arrives(
    loop: asyncio.AbstractEventLoop, path: Path, tls: bool, offset: int, count: int | None
) -> None:
    server, transport, _, sink = await connected(loop, tls)
    expected = CONTENT[offset:] if count is None else CONTENT[offset : offset + count]
    with path.open("rb") as file:
        transport.write(b"before")
        assert await loop.sendfile(transport, file, offset, count) == len(expected)
        transport.write(b"after")
        assert file.tell() == offset + len(expected)
    received = await sink.wait_received(len(expected) + 11)
    assert received == b"before" + expected + b"after"
    await ended(server, transport, sink)


async def test_what_is_no_file_falls_back(loop: asyncio.AbstractEventLoop) -> None:
    server, transport, _, sink = await connected(loop, tls=False)
    assert await loop.sendfile(transport, io.BytesIO(CONTENT)) == len(CONTENT)
    assert await sink.wait_received(len(CONTENT)) == CONTENT
    with pytest.raises(RuntimeError, match=r"fallback is disabled|not supported|not available|not a regular file"):
        await loop.sendfile(transport, io.BytesIO(CONTENT), fallback=False)
    await ended(server, transport, sink)


async def test_the_peer_goes_away(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    sink.transport.pause_reading()
    with path.open("rb") as file:
        sending = asyncio.ensure_future(loop.sendfile(transport, file))
        await settle(3)
        sink.transport.abort()
        # The buffers of both sockets may hold it all; otherwise it fails by name.
        with contextlib.suppress(ConnectionError):
            assert await sending == len(CONTENT)
    transport.abort()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()


async def test_cancelled_in_the_middle(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    sink.transport.pause_reading()
    with path.open("rb") as file:
        for steps in range(4):
            await cancelled(loop.sendfile(transport, file, 0), steps)
    transport.abort()
    sink.transport.abort()
    await protocol.wait_lost()
    await sink.wait_lost()
    server.close()
    await server.wait_closed()


async def test_a_closing_transport(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    transport.close()
    with path.open("rb") as file, pytest.raises(RuntimeError, match="Transport is closing"):
        await loop.sendfile(transport, file)
    await protocol.wait_lost()
    await ended(server, transport, sink)


NOTHING_LEFT = {"at the end": len(CONTENT), "behind the end": len(CONTENT) + 10}


@pytest.mark.parametrize("offset", NOTHING_LEFT.values(), ids=NOTHING_LEFT)
@pytest.mark.parametrize("method", ["sendfile", "sock_sendfile"])
def test_the_position_when_nothing_is_sent(path: Path, method: str, offset: int) -> None:
    """As with the running version's asyncio: older patch releases keep it, newer ones move it to the offset."""

    def position(loop: asyncio.AbstractEventLoop) -> int:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        async def send() -> int:
            with path.open("rb", 0) as file:
                file.seek(7)
                if method == "sock_sendfile":
                    assert await loop.sock_sendfile(ours, file, offset) == 0
                else:
                    transport, protocol = await loop.create_connection(Recorder, sock=ours)
                    assert await loop.sendfile(transport, file, offset) == 0
                    transport.close()
                    await protocol.wait_lost()
                return file.tell()

        with ours, theirs, contextlib.closing(loop):
            return loop.run_until_complete(send())

    assert position(new_loop("oneloop")) == position(new_loop("asyncio"))
