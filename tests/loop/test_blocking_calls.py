"""Nothing on the loop that a detector of blocking calls reports."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.conftest import settle

blockbuster = pytest.importorskip("blockbuster", reason="needs blockbuster, the detector of blocking calls")

pytestmark = pytest.mark.oneloop_only("stock asyncio looks at a Unix server's file with os.stat")


# From Python 3.13 on a Unix server removes its file.
HAS_CLEANUP = sys.version_info >= (3, 13)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture(autouse=True)
def streams_are_known(loop: asyncio.AbstractEventLoop) -> None:
    """What only the first connection of a process does has a test of its own, below."""

    async def connect() -> None:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        writer.close()
        await writer.wait_closed()
        theirs.close()

    loop.run_until_complete(connect())


async def test_the_detector_detects(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    with blockbuster.blockbuster_ctx():
        with pytest.raises(blockbuster.BlockingError):
            tmp_path.stat()


async def test_a_unix_server(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """From its start to its close. Over a file that stands there CPython's own code calls os.remove."""
    path = str(tmp_path / "socket")
    keeps: dict[str, Any] = {"cleanup_socket": False} if HAS_CLEANUP else {}
    with blockbuster.blockbuster_ctx():
        server = await loop.create_unix_server(Echo, path, **keeps)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"hello")
        await writer.drain()
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
    assert Path(path).exists()


async def test_a_unix_server_that_takes_its_file_away(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with blockbuster.blockbuster_ctx():
        server = await loop.create_unix_server(Echo, path)
        server.close()
        await server.wait_closed()
    assert Path(path).exists() is not HAS_CLEANUP


async def test_connections_timers_and_signals(loop: asyncio.AbstractEventLoop) -> None:
    with blockbuster.blockbuster_ctx():
        async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for _ in range(10):
                writer.write(b"hello")
                await writer.drain()
                assert await reader.readexactly(5) == b"hello"
                await asyncio.sleep(0.0001)
            writer.close()
            await writer.wait_closed()
        loop.add_signal_handler(signal.SIGUSR1, print)
        loop.remove_signal_handler(signal.SIGUSR1)
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
        transport.close()
        await settle()


def test_the_first_connection_of_a_process(loop_name: str) -> None:
    body = """
    from blockbuster import blockbuster_ctx

    async def serve(reader, writer):
        writer.write(await reader.readexactly(5))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main():
        with blockbuster_ctx():
            async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"hello")
                assert await reader.read() == b"hello"
                writer.close()
                await writer.wait_closed()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    """
    programs.run_ok(loop_name, body)
