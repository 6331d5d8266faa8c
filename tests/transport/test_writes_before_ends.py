"""What was written comes before whatever ends a connection, a callback or the loop's run.

Nothing that a program asks of its transport or of its socket is older than its writes: as if each had gone at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import settle
from tests.peers import KINDS, LIMIT_S, Peer, connect, connected
from tests.protocols import Recorder
from tests.transport.conftest import ALL, socket_pair, write_all
from tests.transport.places import PLACES, run_in


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("end", ["abort", "close", "write_eof"])
@pytest.mark.parametrize("place", ["call_soon", "task step", "data_received"])
async def test_an_end_comes_after_the_writes(loop: asyncio.AbstractEventLoop, kind: str, place: str, end: str) -> None:
    async with connected(kind) as (transport, protocol, peer):

        def act() -> None:
            write_all(transport)
            getattr(transport, end)()

        await run_in(place, act)
        if not (end == "write_eof" and kind != "pipe"):
            assert await protocol.wait_lost() is None
        assert peer.take_all() == ALL


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_a_half_close_is_there_at_once(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> bytes:
            write_all(transport)
            transport.write_eof()
            return peer.take_all()

        assert await run_in("call_soon", act) == ALL


@pytest.mark.parametrize("writes", [1, 2, 20])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
@pytest.mark.parametrize("method", ["data_received", "buffer_updated", "eof_received"])
async def test_a_protocol_that_writes_and_raises(
    loop: asyncio.AbstractEventLoop, reported: Any, kind: str, method: str, writes: int
) -> None:
    class Failing(Recorder):
        def _note(self, call: str) -> None:
            super()._note(call)
            if call == method:
                for _ in range(writes):
                    self.transport.write(b"answer,")
                raise LookupError(call)

    class Buffered(Failing, asyncio.BufferedProtocol):
        def get_buffer(self, sizehint: int) -> bytearray:
            return bytearray(100)

        def buffer_updated(self, nbytes: int) -> None:
            self._note("buffer_updated")

    ours, theirs = socket_pair(kind)
    peer = Peer(theirs)
    _, protocol = await loop.create_connection(Buffered if method == "buffer_updated" else Failing, sock=ours)
    peer.send(b"question")
    if method == "eof_received":
        theirs.shutdown(socket.SHUT_WR)
    assert isinstance(await protocol.wait_lost(), LookupError)
    await settle()
    assert peer.take_all() == b"answer," * writes
    peer.close()
    reported.take_one(LookupError)


@pytest.mark.parametrize("end", ["abort", "close"])
async def test_connection_lost_keeps_its_place(loop: asyncio.AbstractEventLoop, kind: str, end: str) -> None:
    order: list[str] = []

    class Noting(Recorder):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            order.append("lost")

    async with connected(kind, Noting) as (transport, protocol, peer):

        def act() -> None:
            loop.call_soon(order.append, "before")
            write_all(transport)
            getattr(transport, end)()
            loop.call_soon(order.append, "after")

        await run_in("call_soon", act)
        await protocol.wait_lost()
        assert peer.take_all() == ALL
    assert order == ["before", "lost", "after"]


@pytest.mark.parametrize("place", sorted(PLACES))
def test_stop_comes_after_the_writes(loop: asyncio.AbstractEventLoop, kind: str, place: str) -> None:
    transport, _, peer = loop.run_until_complete(connect(kind))

    def act() -> None:
        write_all(transport)
        loop.stop()

    task = loop.create_task(run_in(place, act))
    loop.run_forever()
    assert peer.take(len(ALL)) == ALL
    loop.run_until_complete(task)
    transport.close()
    loop.run_until_complete(settle())
    peer.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", ["call_soon", "call_later", "reader", "data_received", "task step"])
def test_an_exception_that_leaves_the_loop_comes_after_the_writes(
    loop: asyncio.AbstractEventLoop, kind: str, place: str, error: type[BaseException]
) -> None:
    transport, _, peer = loop.run_until_complete(connect(kind))

    def act() -> None:
        write_all(transport)
        raise error

    async def start() -> None:
        await PLACES[place](act)

    task = loop.create_task(start())
    with pytest.raises(error):
        loop.run_forever()
    assert peer.take(len(ALL)) == ALL
    with contextlib.suppress(error):
        loop.run_until_complete(task)
    transport.close()
    loop.run_until_complete(settle())
    peer.close()


async def test_buffer_size_after_small_writes(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> list[int]:
            sizes = []
            for _ in range(5):
                transport.write(b"x" * 100)
                sizes.append(transport.get_write_buffer_size())
            return sizes

        assert await run_in("call_soon", act) == [0] * 5
        assert peer.take(500) == b"x" * 500


@pytest.mark.parametrize("kind", ["unix", "pipe"])  # of a TCP peer's window the kernel takes more while it reads
async def test_buffer_size_is_what_the_kernel_has_not_taken(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> tuple[int, bytes]:
            written = 0
            while transport.get_write_buffer_size() == 0:
                for _ in range(7):
                    transport.write(b"x" * 999)
                written += 7 * 999
            taken = written - transport.get_write_buffer_size()
            return taken, peer.take(taken)

        taken, received = await run_in("call_soon", act)
        assert len(received) == taken


@pytest.mark.parametrize("high", [0, 100])
async def test_a_low_mark_does_not_pause_for_what_the_kernel_takes(
    loop: asyncio.AbstractEventLoop, kind: str, high: int
) -> None:
    async with connected(kind) as (transport, protocol, peer):
        transport.set_write_buffer_limits(high)

        def act() -> None:
            for _ in range(20):
                transport.write(b"x" * 99)

        await run_in("call_soon", act)
        assert peer.take(20 * 99) == b"x" * (20 * 99)
        assert "pause_writing" not in protocol.calls


ASKED: dict[str, Callable[[Any], Any]] = {
    "shutdown": lambda sock: sock.shutdown(socket.SHUT_WR),
    "setsockopt": lambda sock: sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    "fileno": lambda sock: sock.fileno(),
    "dup": lambda sock: sock.dup().close(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_the_socket_object_comes_after_the_writes(loop: asyncio.AbstractEventLoop, kind: str, asked: str) -> None:
    async with connected(kind) as (transport, _, peer):
        sock = transport.get_extra_info("socket")

        def act() -> bytes:
            write_all(transport)
            ASKED[asked](sock)
            return peer.take_all() if asked == "shutdown" else peer.take(len(ALL))

        assert await run_in("call_soon", act) == ALL


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_a_socket_that_is_first_asked_for_after_the_writes(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> bytes:
            write_all(transport)
            os.write(transport.get_extra_info("socket").fileno(), b",four")
            return peer.take(len(ALL) + 5)

        assert await run_in("call_soon", act) == ALL + b",four"


async def test_sendfile_comes_after_the_writes(loop: asyncio.AbstractEventLoop, tmp_path: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(b",file")
    async with connected("tcp") as (transport, _, peer):
        with path.open("rb") as file:
            write_all(transport)
            await loop.sendfile(transport, file)
        # sendfile() may have ended without giving the loop a turn: this may be a further write of the same callback.
        transport.write(b",end")
        await asyncio.sleep(0)
        assert peer.take(len(ALL) + 9) == ALL + b",file,end"


def posted(sock: socket.socket, body: bytes) -> bytes:
    """All that a TLS client can read which sends a body, whether somebody takes it or resets the connection.

    OpenSSL would not read on after a failed write; the kernel hands out what came before the reset.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    received = b""

    def exchange(step: Callable[[], bytes | None]) -> bytes | None:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    sock.sendall(outgoing.read())
                try:
                    data = sock.recv(1 << 16)
                except ConnectionResetError:
                    data = b""
                if data:
                    incoming.write(data)
                else:
                    incoming.write_eof()

    exchange(tls.do_handshake)
    tls.write(body)
    with contextlib.suppress(ssl.SSLError):
        while data := exchange(lambda: tls.read(1000)):
            received += data
    return received


async def test_a_tls_server_that_refuses_a_body(loop: asyncio.AbstractEventLoop) -> None:
    """413 and close() with most of the request unread: 20 of 20 clients get the answer."""
    answer = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\n" + b"too large" * 10

    class Refusing(asyncio.Protocol):
        transport: Any

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(answer[:20])
            self.transport.write(answer[20:])
            self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            lost.append(exc)

    def ask(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, LIMIT_S) as sock:
            return posted(sock, bytes(120_000))

    lost: list[Exception | None] = []
    async with await loop.create_server(Refusing, "127.0.0.1", 0, ssl=server_context()) as server:
        address = server.sockets[0].getsockname()
        answers = [await asyncio.to_thread(ask, address) for _ in range(20)]
        while len(lost) < 20:
            await asyncio.sleep(0.001)
    assert answers == [answer] * 20
    await loop.shutdown_default_executor()
