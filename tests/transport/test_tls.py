"""TLS over the loop's transports: handshakes, data, start_tls, TLS in TLS, closing, failures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context, verifying_context
from tests.conftest import cancelled
from tests.protocols import BufferedRecorder, Echo, Recorder, keeping
from tests.transport.conftest import socket_pair


async def finish(transport: Any, protocol: Recorder) -> None:
    transport.close()
    await protocol.wait_lost()
    for _ in range(5):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("factory", [Recorder, BufferedRecorder])
async def test_echo(loop: asyncio.AbstractEventLoop, factory: Any) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context()) as server:
        port = server.sockets[0].getsockname()[1]
        transport, protocol = await loop.create_connection(
            factory, "127.0.0.1", port, ssl=verifying_context(), server_hostname=HOST
        )
        total = 0
        for size in (1, 1000, 16384, 16385, 1_000_000):
            transport.write(os.urandom(size))
            total += size
            assert len(await protocol.wait_received(total)) == total
        assert transport.get_extra_info("ssl_object").version().startswith("TLS")
        assert transport.get_extra_info("peercert")
        assert transport.get_extra_info("cipher")
        assert transport.get_extra_info("socket").fileno() > 0
        await finish(transport, protocol)


async def test_a_certificate_nobody_trusts(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context()) as server:
        port = server.sockets[0].getsockname()[1]
        for _ in range(5):
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.create_connection(
                    Recorder, "127.0.0.1", port, ssl=ssl.create_default_context(), server_hostname=HOST
                )
        for _ in range(10):
            await asyncio.sleep(0.001)
    reported.take()


async def test_a_peer_that_speaks_no_tls(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        opening = asyncio.ensure_future(loop.create_connection(Recorder, *listener.getsockname(), ssl=client_context()))
        peer, _ = await loop.sock_accept(listener)
        await loop.sock_sendall(peer, b"this is not TLS at all, however long you look at it\n" * 10)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await opening
        peer.close()


async def test_a_handshake_that_never_ends(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises((TimeoutError, ConnectionAbortedError)):
            await loop.create_connection(
                Recorder, *listener.getsockname(), ssl=client_context(), ssl_handshake_timeout=0.01
            )
        for _ in range(5):
            await asyncio.sleep(0.001)


async def test_start_tls(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("tcp")
    plain_client, client = await loop.create_connection(Recorder, sock=ours)
    plain_server, _ = await loop.create_connection(Echo, sock=theirs)
    server_tls = asyncio.ensure_future(
        loop.start_tls(plain_server, Echo(), server_context(), server_side=True)  # type: ignore[arg-type]
    )
    secure = await loop.start_tls(plain_client, client, client_context(), server_hostname=HOST)
    server = await server_tls
    assert secure is not None
    assert server is not None
    echo = Echo()
    echo.connection_made(server)
    server.set_protocol(echo)
    secure.write(b"hello")
    assert await client.wait_received(5) == b"hello"
    await finish(secure, client)


async def test_start_tls_wrong_arguments(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("tcp")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    with pytest.raises(TypeError, match=r"sslcontext is expected to be an instance of ssl.SSLContext"):
        await loop.start_tls(transport, protocol, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not supported by start_tls"):
        await loop.start_tls(object(), protocol, client_context())  # type: ignore[arg-type]
    theirs.close()
    await finish(transport, protocol)


@pytest.mark.oneloop_only("stock asyncio loses bytes that were read before start_tls (cpython issue 142352)")
async def test_start_tls_keeps_what_was_read_before(loop: asyncio.AbstractEventLoop) -> None:
    """The client's hello comes in one segment with the request for TLS: a stream reader has it in its buffer."""
    accepted: asyncio.Future[bytes] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        await writer.start_tls(server_context())
        accepted.set_result(await reader.readline())
        writer.close()
        # The client leaves without reading the goodbye: that may be answered by a reset.
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = client_context().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        secure.do_handshake()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await loop.sock_sendall(client, b"STARTTLS\n" + outgoing.read())
        while True:
            try:
                secure.do_handshake()
            except ssl.SSLWantReadError:
                if pending := outgoing.read():
                    await loop.sock_sendall(client, pending)
                incoming.write(await loop.sock_recv(client, 65536))
            else:
                break
        secure.write(b"hello\n")
        await loop.sock_sendall(client, outgoing.read())
        assert await accepted == b"hello\n"
    server.close()
    await server.wait_closed()


async def test_tls_in_tls(loop: asyncio.AbstractEventLoop) -> None:
    async def outer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes the inner TLS through to a TLS server, as a proxy would."""
        inner_reader, inner_writer = await asyncio.open_connection(*inner.sockets[0].getsockname())

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
            target.close()

        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    inner = await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context())
    proxy = await asyncio.start_server(outer, "127.0.0.1", 0, ssl=server_context())
    transport, protocol = await loop.create_connection(Recorder, *proxy.sockets[0].getsockname(), ssl=client_context())
    secure = await loop.start_tls(transport, protocol, client_context(), server_hostname=HOST)
    assert secure is not None
    data = os.urandom(500_000)
    secure.write(data)
    assert await protocol.wait_received(len(data)) == data
    secure.close()
    await protocol.wait_lost()
    for server in (proxy, inner):
        server.close()
        await server.wait_closed()
    for _ in range(10):
        await asyncio.sleep(0.001)


async def test_close_sends_what_is_queued(loop: asyncio.AbstractEventLoop) -> None:
    received = bytearray()
    ended = asyncio.Event()

    class Sink(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.extend(data)

        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    async with await loop.create_server(Sink, "127.0.0.1", 0, ssl=server_context()) as server:
        transport, _ = await loop.create_connection(Recorder, *server.sockets[0].getsockname(), ssl=client_context())
        data = os.urandom(2_000_000)
        transport.write(data)
        transport.close()
        await ended.wait()
    assert received == data


async def test_a_peer_that_vanishes(loop: asyncio.AbstractEventLoop) -> None:
    """Aborted at one end with data under way: the other end's protocol is told once, and both descriptors go."""
    accepted: list[Recorder] = []
    async with await loop.create_server(keeping(accepted, Recorder), "127.0.0.1", 0, ssl=server_context()) as server:
        for serial in range(5):
            transport, protocol = await loop.create_connection(
                Recorder, *server.sockets[0].getsockname(), ssl=client_context()
            )
            transport.write(b"x" * 1000)
            transport.abort()
            assert await protocol.wait_lost() is None
            while len(accepted) <= serial:
                await asyncio.sleep(0.001)
            error = await accepted[serial].wait_lost()
            assert error is None or isinstance(error, OSError), error
            assert bytes(accepted[serial].received) in (b"", b"x" * 1000)
            for calls in (protocol.calls, accepted[serial].calls):
                assert calls[0] == "connection_made"
                assert calls[-1] == "connection_lost"
                assert calls.count("connection_lost") == 1
            assert transport.is_closing()


async def test_cancelling_a_handshake_at_every_step(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context()) as server:
        address = server.sockets[0].getsockname()
        context = client_context()
        for steps in range(25):
            task = await cancelled(loop.create_connection(Recorder, *address, ssl=context), steps)
            if not task.cancelled():
                task.result()[0].abort()
            await asyncio.sleep(0.001)
        for _ in range(10):
            await asyncio.sleep(0.001)
