"""TLS. The sources are in `records/tls.toml`."""

from __future__ import annotations

import asyncio

import pytest

from tests.certificates import HOST, client_context, server_context


class Filled(asyncio.BufferedProtocol):
    """Lends the same bytearray for all that comes, and empties it each time."""

    def __init__(self, length: int) -> None:
        self.buffer = bytearray(100)
        self.received = bytearray()
        self.is_complete = asyncio.Event()
        self._length = length

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.buffer[:] = bytes(len(self.buffer))
        if len(self.received) >= self._length:
            self.is_complete.set()


@pytest.mark.oneloop_only("asyncio fills a copy of the bytearray, and reports zeros")
async def test_a_buffer_that_is_a_bytearray(loop: asyncio.AbstractEventLoop) -> None:
    tasks = len(asyncio.all_tasks())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Two records: both are there when the client reads the first.
        writer.write(b"a" * 30)
        await writer.drain()
        writer.write(b"b" * 30)
        assert await reader.read() == b""
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context()) as server:
        transport, protocol = await loop.create_connection(
            lambda: Filled(60), *server.sockets[0].getsockname(), ssl=client_context(), server_hostname=HOST
        )
        await protocol.is_complete.wait()
        assert protocol.received == b"a" * 30 + b"b" * 30
        transport.close()
    await server.wait_closed()
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0)


async def test_streams_hold_the_peer_up_after_start_tls(loop: asyncio.AbstractEventLoop) -> None:
    """Whichever transport the reader pauses: the writer comes to wait, and everything arrives."""
    size = 8 << 20
    sent = 0
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go\n")
        await writer.start_tls(server_context())
        for _ in range(size >> 16):
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16
        writer.close()
        done.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1 << 16)
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go\n"
        await writer.start_tls(client_context(), server_hostname=HOST)
        before = -1
        while before != sent:
            before = sent
            # Whatever can still be sent is sent in a few iterations of the loop.
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < size
        assert len(await reader.read()) == size
        await done.wait()
        writer.close()
        await writer.wait_closed()
