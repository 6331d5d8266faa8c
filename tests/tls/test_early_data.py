"""Data that comes before anybody waits for it: before start_tls, with the handshake, to a paused reader."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import Endpoint, connected, facing, happens, settled
from tests.transport.conftest import socket_pair

REQUEST = b"STARTTLS\n"


def hello_of(endpoint: Endpoint) -> bytes:
    """A client's first flight."""
    with pytest.raises(Exception, match="The operation did not complete"):
        endpoint.tls.do_handshake()
    return endpoint.outgoing.read()


@pytest.mark.oneloop_only("stock asyncio loses bytes that were read before start_tls (cpython issue 142352)")
@pytest.mark.parametrize("pieces", [1, 2, 3])
async def test_a_reader_with_the_hello_in_its_buffer(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, pieces: int
) -> None:
    """The request and 1/1, 1/2, 2/3 of the client's hello come in one segment, the rest later."""
    got: asyncio.Future[bytes] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == REQUEST
        await writer.start_tls(authority.server_context(version))
        got.set_result(await reader.readline())
        writer.write(b"answer\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        endpoint = Endpoint(client, authority.client_context(version))
        hello = hello_of(endpoint)
        cut = len(hello) if pieces == 1 else len(hello) * (pieces - 1) // pieces
        await endpoint.raw(REQUEST + hello[:cut])
        await settled()
        await endpoint.raw(hello[cut:])
        await endpoint.shake_hands()
        await endpoint.send(b"hello\n")
        assert await got == b"hello\n"
        assert await endpoint.receive_all() == b"answer\n"
        await endpoint.say_goodbye()
    server.close()
    await server.wait_closed()
    await settled()


@pytest.mark.parametrize("outer", ["plain", "tls"])
async def test_a_buffer_that_ends_with_the_request(
    loop: asyncio.AbstractEventLoop, authority: Authority, outer: str
) -> None:
    """A BufferedProtocol takes the request alone; what came behind it, in one segment, is the new layer's."""

    class Upgraded(ViewRecorder):
        secure: Any = None

        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if self.secure is None and self.received == REQUEST:
                self.transport.pause_reading()
                self.secure = loop.create_task(self.upgrade())

        async def upgrade(self) -> Recorder:
            inside = Recorder()
            secure: Any = await loop.start_tls(self.transport, inside, authority.server_context(), server_side=True)  # type: ignore[arg-type]
            inside.connection_made(secure)
            return inside

    def factory() -> Upgraded:
        return Upgraded(len(REQUEST))

    async def upgraded(protocol: Upgraded, endpoint: Endpoint) -> None:
        await endpoint.shake_hands()
        await endpoint.send(b"inside")
        inside = await protocol.secure
        assert await inside.wait_received(6) == b"inside"
        inside.transport.write(b"answer")
        assert await endpoint.receive(6) == b"answer"
        inside.transport.abort()

    if outer == "plain":
        ours, theirs = socket_pair("tcp")
        with theirs:
            _, protocol = await loop.create_connection(factory, sock=ours)
            endpoint = Endpoint(theirs, authority.client_context())
            await endpoint.raw(REQUEST + hello_of(endpoint))
            await upgraded(protocol, endpoint)
            await settled()
    else:
        async with facing(authority, factory) as (_, protocol, around):
            endpoint = Through(around, authority)
            await around.send(REQUEST + hello_of(endpoint))
            await upgraded(protocol, endpoint)


class Through(Endpoint):
    """TLS inside of another endpoint's TLS."""

    def __init__(self, around: Endpoint, authority: Authority) -> None:
        super().__init__(around.sock, authority.client_context())
        self.around = around

    async def raw(self, data: bytes) -> None:
        await self.around.send(data)

    async def take(self) -> bool:
        data = await self.around.until_done(self.around.tls.read, 1 << 16)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return bool(data)


@pytest.mark.parametrize("factory", [Recorder, ViewRecorder])
async def test_data_with_the_end_of_the_handshake(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, factory: Any
) -> None:
    """The client's first data comes in one segment with its last handshake message: TLS 1.3 allows it."""
    ours, theirs = socket_pair("tcp")
    making = loop.create_task(loop.connect_accepted_socket(factory, ours, ssl=authority.server_context(version)))
    endpoint = Endpoint(theirs, authority.client_context(version))
    with theirs:
        await endpoint.raw(hello_of(endpoint))
        if version == "1.3":
            while True:
                await endpoint.take()
                try:
                    endpoint.tls.do_handshake()
                    break
                except OSError:
                    continue
            await endpoint.raw(endpoint.outgoing.read() + endpoint.encrypted(b"first") + endpoint.encrypted(b"second"))
        else:
            await endpoint.shake_hands()
            await endpoint.raw(endpoint.encrypted(b"first") + endpoint.encrypted(b"second"))
        transport, protocol = await making
        assert await protocol.wait_received(11) == b"firstsecond"
        transport.abort()
        await settled()


class Paused(Recorder):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.pause_reading()


@pytest.mark.oneloop_only("asyncio: the last flight of a TLS 1.2 server does not leave while reading is paused")
async def test_pausing_in_connection_made_holds_no_handshake_up(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    ours, theirs = socket_pair("tcp")
    with theirs:
        making = loop.create_task(loop.connect_accepted_socket(Paused, ours, ssl=authority.server_context("1.2")))
        endpoint = Endpoint(theirs, authority.client_context("1.2"))
        shaking = loop.create_task(endpoint.shake_hands())
        is_through = await happens(shaking.done)
        shaking.cancel()
        transport, _ = await making
        transport.abort()
        await settled()
    assert is_through


async def test_pausing_in_connection_made(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority, Paused, version="1.3") as (transport, protocol, endpoint):
        await endpoint.send(b"early")
        await settled()
        assert protocol.calls == ["connection_made"]
        transport.resume_reading()
        assert await protocol.wait_received(5) == b"early"


@pytest.mark.parametrize("goodbye", [False, True])
async def test_a_reader_that_is_paused_from_the_start(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, goodbye: bool
) -> None:
    """Nothing is delivered while it is paused; all of it when it resumes, though the socket says nothing new."""
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        transport.pause_reading()
        await endpoint.send(b"early " * 10)
        await endpoint.send(b"data")
        if goodbye:
            await endpoint.say_goodbye()
        await settled()
        assert not transport.is_reading()
        assert protocol.calls == ["connection_made"]
        transport.resume_reading()
        assert transport.is_reading()
        assert await protocol.wait_received(64) == b"early " * 10 + b"data"
        if goodbye:
            assert await protocol.wait_lost() is None
            assert protocol.calls[-2:] == ["eof_received", "connection_lost"]


async def test_a_stream_reader_over_its_limit(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """It pauses its transport before anybody reads; all of it arrives when somebody does, and the end of it."""
    go = asyncio.Event()
    got: asyncio.Future[bytes] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        got.set_result(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server_context(), limit=10)
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        endpoint = Endpoint(client, authority.client_context())
        await endpoint.shake_hands()
        for number in range(10):
            await endpoint.send(b"%03d" % number * 10)
            await settled(3)
        await endpoint.say_goodbye()
        await settled()
        go.set()
        assert await got == b"".join(b"%03d" % number * 10 for number in range(10))
    server.close()
    await server.wait_closed()
    await settled()


async def test_start_tls_while_the_reader_has_paused_its_transport(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """More than the limit came in plain text: the reader has paused the transport that is then upgraded."""
    go = asyncio.Event()
    got: asyncio.Future[bytes] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        assert await reader.readexactly(100) == b"p" * 100
        writer.write(b"ready")
        await writer.start_tls(authority.server_context())
        got.set_result(await reader.readexactly(1000))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=10)
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        endpoint = Endpoint(client, authority.client_context())
        await endpoint.raw(b"p" * 100)
        await settled()
        go.set()
        assert await loop.sock_recv(client, 5) == b"ready"
        await endpoint.shake_hands()
        await endpoint.send(b"s" * 1000)
        assert await got == b"s" * 1000
    server.close()
    await server.wait_closed()
    await settled()


async def test_pausing_holds_data_back_that_is_decrypted_already(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """Many records come in one segment; who pauses in the first call gets no second one before it resumes."""

    class PausesEachTime(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()

    async with connected(authority, Recorder, PausesEachTime) as (transport, _, accepted, protocol):
        for number in range(50):
            transport.write(b"%06d" % number * 1000)
        while len(protocol.received) < 300_000:
            await protocol.wait_call("data_received")
            calls = list(protocol.calls)
            await settled(3)
            assert protocol.calls == calls
            protocol.calls.remove("data_received")
            accepted.resume_reading()
        assert protocol.received == b"".join(b"%06d" % number * 1000 for number in range(50))
