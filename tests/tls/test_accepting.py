"""What becomes of an accepted connection whose handshake or protocol does not come about."""

from __future__ import annotations

import asyncio
import contextlib
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


@pytest.mark.oneloop_only("asyncio passes `context` from 3.15 on")
async def test_a_task_factory_of_old(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """It takes the loop and the coroutine, as it did before Python 3.11."""
    loop.set_task_factory(lambda loop, coro: asyncio.Task(coro, loop=loop))  # type: ignore[arg-type]
    context = authority.server_context()
    async with await loop.create_server(Recorder, "127.0.0.1", 0, ssl=context) as server:
        with client_of(server) as sock:
            await Endpoint(sock, authority.client_context()).shake_hands()
        await settled()


@pytest.mark.oneloop_only("asyncio leaves a transport behind")
@pytest.mark.parametrize("ticks", range(4))
async def test_a_server_that_is_closed_while_it_accepts(
    loop: asyncio.AbstractEventLoop, authority: Authority, ticks: int
) -> None:
    """The client's connection ends, and nobody is told: `audit` looks."""
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=authority.server_context())
    with client_of(server) as sock:
        for _ in range(ticks):
            await asyncio.sleep(0)
        server.close()
        # It was accepted or not, and the handshake has begun or not.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
            assert await loop.sock_recv(sock, 1) == b""
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
