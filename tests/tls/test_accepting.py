"""What becomes of an accepted connection whose handshake or protocol does not come about."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests import programs
from tests.conftest import Reported
from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.tls.endpoint import Endpoint, happens, settled


def client_of(server: asyncio.Server) -> socket.socket:
    sock = socket.create_connection(server.sockets[0].getsockname())
    sock.setblocking(False)
    return sock


async def test_cancelled_while_it_shakes_hands(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """As at the end of `asyncio.run`: the client's connection ends."""
    context = authority.server_context()
    others = asyncio.all_tasks()
    async with await loop.create_server(Recorder, "127.0.0.1", 0, ssl=context) as server:
        with client_of(server) as sock:
            assert await happens(lambda: len(asyncio.all_tasks() - others) == 1)
            await settled()
            for task in asyncio.all_tasks() - others:
                task.cancel()
            assert await loop.sock_recv(sock, 1) == b""
        await settled()


@pytest.mark.oneloop_only("asyncio leaves the socket to the garbage collector")
async def test_a_factory_that_raises(loop: asyncio.AbstractEventLoop, authority: Authority, reported: Reported) -> None:
    """The client's connection ends, and the error is reported; the next client is served."""
    raises = [True]

    def factory() -> Recorder:
        if raises and raises.pop():
            raise LookupError("no protocol")
        return Recorder()

    context = authority.server_context()
    async with await loop.create_server(factory, "127.0.0.1", 0, ssl=context) as server:
        with client_of(server) as sock:
            assert await loop.sock_recv(sock, 1) == b""
        reported.take_one(LookupError)
        with client_of(server) as sock:
            await Endpoint(sock, authority.client_context()).shake_hands()
        await settled()


def test_an_exit_of_a_factory_leaves_the_loop(loop_name: str) -> None:
    done = programs.run(
        loop_name,
        """
        import ssl

        async def main():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server = await loop.create_server(lambda: sys.exit(3), "127.0.0.1", 0, ssl=context)
            with socket.create_connection(server.sockets[0].getsockname()) as sock:
                sock.setblocking(False)
                await loop.sock_recv(sock, 1)

        loop = new_loop()
        loop.run_until_complete(main())
        """,
        limit_s=10.0,
    )
    assert done.returncode == 3, done.stderr
