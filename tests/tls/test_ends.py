"""How connections end: close_notify from either side or none, data on the way, pauses, aborts, time limits."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import Endpoint, connected, facing, happens, settled

SIDES = pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
PROTOCOLS = pytest.mark.parametrize("factory", [Recorder, ViewRecorder])


@SIDES
@PROTOCOLS
async def test_they_say_goodbye(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, factory: Any
) -> None:
    """Ours answers, and closes."""
    async with facing(authority, factory, server_side=server_side, version=version) as (transport, protocol, endpoint):
        await endpoint.send(b"last words")
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
        assert protocol.received == b"last words"
        assert protocol.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]
        assert await endpoint.receive_all() == b""
        assert not await endpoint.take()
        assert transport.is_closing()


@PROTOCOLS
async def test_an_answer_to_their_goodbye(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, factory: Any
) -> None:
    """Who writes in eof_received() is heard: the peer, which says no more, may still read."""

    class Answers(factory):  # type: ignore[misc]
        def eof_received(self) -> bool:
            self.transport.write(b"farewell")
            return super().eof_received()  # type: ignore[no-any-return]

    async with facing(authority, Answers, version=version) as (_transport, protocol, endpoint):
        await endpoint.say_goodbye()
        assert await endpoint.receive_all() == b"farewell"
        assert await protocol.wait_lost() is None


@SIDES
@PROTOCOLS
async def test_we_say_goodbye(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, factory: Any
) -> None:
    """What was written before leaves before; the connection ends when the peer has answered."""
    async with facing(authority, factory, server_side=server_side, version=version) as (transport, protocol, endpoint):
        transport.write(b"x" * 100_000)
        transport.close()
        assert transport.is_closing()
        transport.write(b"never sent")
        assert await endpoint.receive_all() == b"x" * 100_000
        await settled()
        assert protocol.calls == ["connection_made"]
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
        assert not await endpoint.take()


@SIDES
async def test_more_than_the_socket_takes_before_close(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool
) -> None:
    async with facing(authority, server_side=server_side, version=version) as (transport, protocol, endpoint):
        data = b"".join(b"%07d" % number for number in range(1_000_000))
        transport.write(data)
        transport.close()
        assert await endpoint.receive_all() == data
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None


@SIDES
@PROTOCOLS
@pytest.mark.parametrize("trailing", ["garbage", "records"])
async def test_what_comes_behind_a_goodbye(
    loop: asyncio.AbstractEventLoop,
    authority: Authority,
    version: str,
    server_side: bool,
    factory: Any,
    trailing: str,
) -> None:
    """Nobody gets it, and the connection ends all the same."""
    async with facing(authority, factory, server_side=server_side, version=version) as (_, protocol, endpoint):
        words = endpoint.encrypted(b"last words")
        behind = endpoint.encrypted(b"behind") if trailing == "records" else b"\x17\x03\x03\xff\xffgarbage" * 10
        # The peer's numbers of records do not fit what is behind; nobody may look at it.
        await endpoint.raw(words + endpoint.goodbye() + behind)
        error = await protocol.wait_lost()
        assert error is None or isinstance(error, (ssl.SSLError, ConnectionError)), error
        assert protocol.received in (b"last words", b"")
        assert protocol.calls[-1] == "connection_lost"
        if trailing == "garbage":
            assert protocol.received == b"last words"
            assert protocol.calls[-2] == "eof_received"


@SIDES
@PROTOCOLS
@pytest.mark.parametrize("paused", [False, True])
async def test_the_stream_ends_without_goodbye(
    loop: asyncio.AbstractEventLoop,
    authority: Authority,
    version: str,
    server_side: bool,
    factory: Any,
    paused: bool,
) -> None:
    """It is taken for an end: eof_received, then no error. A paused reader first gets what came before."""
    async with facing(authority, factory, server_side=server_side, version=version) as (transport, protocol, endpoint):
        if paused:
            transport.pause_reading()
        await endpoint.send(b"last words")
        endpoint.sock.shutdown(1)
        if paused:
            await settled()
            assert protocol.calls == ["connection_made"]
            transport.resume_reading()
        assert await protocol.wait_lost() is None
        assert protocol.received == b"last words"
        assert protocol.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]


@SIDES
async def test_the_stream_ends_in_a_record(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool
) -> None:
    async with facing(authority, server_side=server_side, version=version) as (_, protocol, endpoint):
        whole, torn = endpoint.encrypted(b"whole"), endpoint.encrypted(b"torn")
        await endpoint.raw(whole + torn[:-1])
        endpoint.sock.shutdown(1)
        error = await protocol.wait_lost()
        assert error is None or isinstance(error, OSError)
        assert protocol.received == b"whole"
        assert protocol.calls[-1] == "connection_lost"


async def test_the_stream_ends_while_writing_is_paused(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """The peer shuts its side down and reads on: what was written before arrives."""
    async with facing(authority) as (transport, protocol, endpoint):
        data = b"d" * 3_000_000
        transport.write(data)
        await settled()
        endpoint.sock.shutdown(1)
        received = bytearray()
        try:
            while len(received) < len(data):
                got = await endpoint.receive(1 << 16)
                if not got:
                    break
                received += got
        except OSError:
            # The stream may end in the middle, as asyncio drops what it has not sent.
            pass
        assert data.startswith(received)
        assert "eof_received" in protocol.calls
        await protocol.wait_lost()


async def test_a_stream_reader_gets_the_end(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """read() gives what came and then the end, with or without a goodbye."""
    for goodbye in (True, False):
        got: asyncio.Future[list[bytes]] = loop.create_future()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, got: asyncio.Future[list[bytes]] = got
        ) -> None:
            got.set_result([await reader.read(), await reader.read(1)])
            assert reader.at_eof()
            writer.close()

        def factory(serve: Any = serve) -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), serve, loop=loop)

        async with facing(authority, factory) as (_, _protocol, endpoint):
            await endpoint.send(b"data" * 1000)
            if goodbye:
                await endpoint.say_goodbye()
            else:
                endpoint.sock.shutdown(1)
            assert await got == [b"data" * 1000, b""]


@SIDES
@pytest.mark.parametrize("way", ["abort", "close, abort"])
async def test_an_answer_before_abort_leaves(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, way: str
) -> None:
    """As with plain transports, a write goes to the kernel at once; abort drops only what the kernel did not take."""
    async with facing(authority, server_side=server_side, version=version) as (transport, protocol, endpoint):
        transport.write(b"first ")
        transport.write(b"and last answer")
        if way == "close, abort":
            transport.close()
        transport.abort()
        assert await endpoint.receive(21) == b"first and last answer"
        assert await protocol.wait_lost() is None
        assert protocol.calls == ["connection_made", "connection_lost"]


async def test_an_answer_before_abort_in_data_received(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    class Answers(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(b"no!")
            self.transport.abort()

    async with facing(authority, Answers) as (_, protocol, endpoint):
        await endpoint.send(b"please?")
        assert await endpoint.receive(3) == b"no!"
        assert await protocol.wait_lost() is None


@SIDES
@pytest.mark.parametrize("paused", [False, True], ids=["reading", "paused"])
async def test_close_with_data_on_the_way(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, paused: bool
) -> None:
    """Data that comes after close() is nobody's; the end may be an SSLError that says so, as with sslproto."""
    async with facing(authority, server_side=server_side, version=version) as (transport, protocol, endpoint):
        if paused:
            transport.pause_reading()
        await endpoint.send(b"on the way")
        transport.close()
        await endpoint.send(b"too late")
        with_goodbye = endpoint.goodbye()
        await endpoint.raw(with_goodbye)
        error = await protocol.wait_lost()
        assert error is None or isinstance(error, ssl.SSLError), error
        if error is not None:
            assert error.reason == "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
        assert b"too late" not in protocol.received
        assert protocol.calls[-1] == "connection_lost"


@pytest.mark.parametrize("data", [0, 100, 5_000_000])
async def test_close_while_reading_is_paused(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, data: int
) -> None:
    """A pause keeps data from the protocol; not the connection from its end, or written data from the peer."""
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        transport.pause_reading()
        transport.write(b"d" * data)
        transport.close()
        received = await endpoint.receive_all()
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
        assert protocol.calls[0] == "connection_made"
        assert protocol.calls[-1] == "connection_lost"
        assert received == b"d" * data


@pytest.mark.oneloop_only("asyncio ends with an SSLError, or by its time limit")
@pytest.mark.parametrize("high", [None, 100])
async def test_close_while_reading_is_paused_and_data_has_come(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, high: int | None
) -> None:
    """It is dropped: the peer gets a goodbye, and its own is heard, also where nothing more was read before."""
    async with facing(authority, version=version, kind="unix") as (transport, protocol, endpoint):
        transport.pause_reading()
        transport.set_read_buffer_limits(high)
        await endpoint.raw(b"".join(endpoint.encrypted(b"x" * 100) for _ in range(10)))
        await settled()
        transport.close()
        assert await endpoint.receive_all() == b""
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
        assert not protocol.received


async def test_writes_after_the_stream_has_ended_while_reading_is_paused(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    """They are dropped, although the protocol has not been told yet; it still gets what came before."""
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        transport.pause_reading()
        await endpoint.send(b"data")
        endpoint.sock.shutdown(1)
        await settled()
        transport.write(b"late")
        transport.resume_reading()
        await protocol.wait_lost()
        assert protocol.received == b"data"
        assert protocol.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]
        while await endpoint.take():
            pass
        with pytest.raises(ssl.SSLEOFError):
            endpoint.tls.read(1)


@pytest.mark.oneloop_only("asyncio waits for a resume_reading() that does not come")
async def test_close_while_reading_is_paused_and_the_stream_has_ended(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        transport.pause_reading()
        await endpoint.send(b"unread")
        endpoint.sock.shutdown(1)
        await settled()
        assert protocol.calls == ["connection_made"]
        transport.close()
        assert await protocol.wait_lost() is None
        assert not protocol.received


async def pause_reading(transport: Any, _endpoint: Endpoint) -> None:
    transport.pause_reading()


async def fill(transport: Any, _endpoint: Endpoint) -> None:
    transport.write(b"x" * 20_000_000)


async def half_close(_transport: Any, endpoint: Endpoint) -> None:
    await endpoint.send(b"data")


async def pause_and_fill(transport: Any, _endpoint: Endpoint) -> None:
    transport.pause_reading()
    transport.write(b"x" * 20_000_000)


@SIDES
@pytest.mark.parametrize("before", [None, pause_reading, fill, half_close, pause_and_fill])
async def test_the_shutdown_time_limit_always_fires(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, before: Any
) -> None:
    """The peer says nothing at all: with data that does not leave, too, and while reading is paused."""
    async with facing(authority, server_side=server_side, version=version, ssl_shutdown_timeout=0.02) as made:
        transport, protocol, endpoint = made
        if before is not None:
            await before(transport, endpoint)
        transport.close()
        error = await protocol.wait_lost()
        assert error is None or isinstance(error, (TimeoutError, ssl.SSLError)), error
        if before in (None, pause_reading):
            assert str(error) == "SSL shutdown timed out"
        assert protocol.calls.count("connection_lost") == 1


@pytest.mark.oneloop_only(
    "asyncio: no time limit where the peer has ended the stream and what is written does not leave"
)
async def test_the_shutdown_time_limit_after_their_goodbye(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """The peer says goodbye and reads nothing more: what is written before does not keep the connection for ever."""
    async with facing(authority, ssl_shutdown_timeout=0.02) as (transport, protocol, endpoint):
        transport.write(b"x" * 20_000_000)
        await settled()
        await endpoint.say_goodbye()
        await protocol.wait_lost()


@pytest.mark.oneloop_only("asyncio: no time limit where the peer has ended the stream")
@PROTOCOLS
async def test_the_shutdown_time_limit_after_their_end_of_file(
    loop: asyncio.AbstractEventLoop, authority: Authority, factory: Any
) -> None:
    """The same where they end the stream without a goodbye."""
    async with facing(authority, factory, ssl_shutdown_timeout=0.02) as (transport, protocol, endpoint):
        transport.write(b"x" * 20_000_000)
        await settled()
        endpoint.sock.shutdown(1)
        await protocol.wait_lost()


async def test_close_during_the_handshake(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """A server that closes while clients shake hands leaves nothing behind."""
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=authority.server_context())
    making = [
        loop.create_task(
            loop.create_connection(
                Recorder, *server.sockets[0].getsockname(), ssl=authority.client_context(), server_hostname="localhost"
            )
        )
        for _ in range(3)
    ]
    await settled(1)
    server.close()
    for result in await asyncio.gather(*making, return_exceptions=True):
        if isinstance(result, BaseException):
            assert isinstance(result, OSError), result
        else:
            result[0].abort()
    await settled()
    await server.wait_closed()
    await settled()


@SIDES
async def test_the_peer_leaves_in_the_handshake(
    loop: asyncio.AbstractEventLoop, authority: Authority, server_side: bool
) -> None:
    from tests.transport.conftest import socket_pair

    for reset in (False, True):
        ours, theirs = socket_pair("tcp")
        if server_side:
            making: Any = loop.connect_accepted_socket(Recorder, ours, ssl=authority.server_context())
        else:
            making = loop.create_connection(
                Recorder, sock=ours, ssl=authority.client_context(), server_hostname="localhost"
            )
        task = loop.create_task(making)
        await settled()
        if reset:
            theirs.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")
        theirs.close()
        with pytest.raises(ConnectionResetError):
            await task
        await settled()


async def test_writes_after_the_end_are_dropped(
    loop: asyncio.AbstractEventLoop, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with facing(authority) as (transport, protocol, endpoint):
        await endpoint.say_goodbye()
        await protocol.wait_lost()
        with caplog.at_level(logging.WARNING, "asyncio"):
            for _ in range(10):
                transport.write(b"into the void")
            transport.writelines([b"into", b"the", b"void"])
        assert {record.message for record in caplog.records} <= {"SSL connection is closed"}
        assert caplog.records
        assert transport.get_write_buffer_size() == 0
        transport.close()
        transport.abort()
        await settled()
        assert protocol.calls.count("connection_lost") == 1


async def test_keeping_open_at_the_end_has_no_effect(
    loop: asyncio.AbstractEventLoop, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    class Keeps(Recorder):
        keeps_open_at_eof = True

        def __init__(self) -> None:
            super().__init__()
            self.keeps_open_at_eof = True

    async with facing(authority, Keeps) as (_, protocol, endpoint):
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
    assert "returning true from eof_received() has no effect when using ssl" in caplog.messages


async def test_no_half_of_a_tls_transport_can_be_closed(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with connected(authority) as (transport, _, _, _):
        assert not transport.can_write_eof()
        with pytest.raises(NotImplementedError):
            transport.write_eof()


async def test_callbacks_that_raise_at_the_end(
    loop: asyncio.AbstractEventLoop, authority: Authority, reported: Any
) -> None:
    class Raises(Recorder):
        def eof_received(self) -> bool:
            super().eof_received()
            raise ValueError("at the end")

    async with facing(authority, Raises) as (_, protocol, endpoint):
        await endpoint.say_goodbye()
        error = await protocol.wait_lost()
        assert isinstance(error, ValueError)
        assert await happens(lambda: bool(reported.contexts))
        assert reported.take_one(ValueError)["message"] == "Error calling eof_received()"


async def test_data_received_that_raises(loop: asyncio.AbstractEventLoop, authority: Authority, reported: Any) -> None:
    class Raises(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("in data_received")

    async with facing(authority, Raises) as (_, protocol, endpoint):
        await endpoint.send(b"data")
        error = await protocol.wait_lost()
        assert isinstance(error, ValueError)
        assert reported.take_one(ValueError)["message"] == "Fatal error on SSL protocol"
