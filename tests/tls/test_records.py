"""What a TLS transport makes of writes, and of records that are broken: seen from the wire."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import weakref
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.tls.endpoint import Endpoint, facing, happens, settled
from tests.transport.conftest import socket_pair

RECORD = 16 * 1024
ROUNDS = 300
NAME = ContextVar("NAME", default="nobody")


class Counting:
    """Reads what has come to an endpoint, and counts the records with application data or alerts in it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def records(self, count: int) -> tuple[list[int], bytes]:
        """Lengths of the records that carry `count` bytes of text, and the text."""
        endpoint, lengths, text, wire = self.endpoint, [], b"", b""
        while len(text) < count:
            wire += await asyncio.get_running_loop().sock_recv(endpoint.sock, 1 << 20)
            while len(wire) >= 5 and len(wire) >= (whole := 5 + int.from_bytes(wire[3:5])):
                endpoint.incoming.write(wire[:whole])
                wire = wire[whole:]
                try:
                    text += endpoint.tls.read(RECORD)
                except ssl.SSLWantReadError:
                    continue  # a ticket
                lengths.append(whole)
        assert not wire
        return lengths, text


class WritesOnData(Recorder):
    """Answers the first data with several writes in one callback."""

    pieces: tuple[bytes, ...] = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        for piece in self.pieces:
            self.transport.write(piece)


@asynccontextmanager
async def accepted(
    authority: Authority, factory: Callable[[], Any], context: ssl.SSLContext | None = None
) -> AsyncIterator[Endpoint]:
    """A client of a server of the loop's. Nothing is gathered where the program has the socket object itself."""
    loop = asyncio.get_running_loop()
    context = context or authority.server_context()
    async with await loop.create_server(factory, "127.0.0.1", 0, ssl=context) as server:
        with socket.create_connection(server.sockets[0].getsockname()) as sock:
            sock.setblocking(False)
            endpoint = Endpoint(sock, authority.client_context())
            await endpoint.shake_hands()
            yield endpoint
        await settled()


@pytest.mark.oneloop_only("asyncio makes a record of every write")
@pytest.mark.parametrize("count", [2, 50, 1000])
async def test_writes_of_one_callback_make_few_records(
    loop: asyncio.AbstractEventLoop, authority: Authority, count: int
) -> None:
    class Answers(WritesOnData):
        pieces = (b"first", *(b"%03d" % (number % 1000) for number in range(count)))

    async with accepted(authority, Answers) as endpoint:
        await endpoint.send(b"?")
        lengths, text = await Counting(endpoint).records(5 + 3 * count)
        assert text == b"".join(Answers.pieces)
        # The first goes at once; the others follow in one, unless the callback took longer than they are gathered for.
        assert 2 <= len(lengths) <= 2 + count // 10


@pytest.mark.parametrize("size", [5000, 16 * 1024, 70_000, 700_000])
async def test_long_writes_behind_short_ones(loop: asyncio.AbstractEventLoop, authority: Authority, size: int) -> None:
    """All of one callback, where short writes are gathered and long ones are not: none overtakes another."""

    class Answers(WritesOnData):
        pieces = (b"first", b"second", b"x" * size, b"third", b"fourth", b"y" * size, b"last")

    async with accepted(authority, Answers) as endpoint:
        await endpoint.send(b"?")
        text = b"".join(Answers.pieces)
        assert await endpoint.receive(len(text)) == text


async def test_long_writes_make_full_records(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority, kind="unix") as (transport, _protocol, endpoint):
        transport.write(bytes(3 * RECORD + 5))
        lengths, text = await Counting(endpoint).records(3 * RECORD + 5)
        assert text == bytes(3 * RECORD + 5)
        assert len(lengths) == 4


@pytest.mark.oneloop_only("asyncio makes a record of every piece")
async def test_writelines_is_one_write(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _protocol, endpoint):
        transport.writelines([b"x" * 10] * 100)
        lengths, text = await Counting(endpoint).records(1000)
        assert (len(lengths), text) == (1, b"x" * 1000)


@pytest.mark.parametrize("end", ["get_write_buffer_size", "is_closing", "close", "abort", "get_extra_info", "limits"])
async def test_nothing_comes_before_what_was_gathered(
    loop: asyncio.AbstractEventLoop, authority: Authority, end: str
) -> None:
    """Each of these sends it before the callback ends."""
    seen: list[bytes] = []

    class Answers(Recorder):
        def data_received(self, data: bytes) -> None:
            self.transport.write(b"first")
            self.transport.write(b"second")
            if end == "get_extra_info":
                assert self.transport.get_extra_info("ssl_object") is not None
            elif end == "limits":
                self.transport.set_write_buffer_limits(10)
            else:
                getattr(self.transport, end)()
            # Still in the callback: what a peer could read now.
            seen.append(theirs.recv(1 << 16))

    async with accepted(authority, Answers) as endpoint:
        theirs = endpoint.sock
        # The tickets of TLS 1.3 first.
        await settled()
        await endpoint.send(b"?")
        assert await happens(lambda: bool(seen))
        endpoint.incoming.write(seen[0])
        text = b""
        while len(text) < 11:
            text += endpoint.tls.read(100)
        assert text == b"firstsecond"


async def test_nothing_waits_where_the_program_has_the_socket(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """It could send on the socket itself, or close it, in the same callback."""
    async with facing(authority) as (transport, _protocol, endpoint):
        transport.write(b"first")
        transport.write(b"second")
        endpoint.incoming.write(endpoint.sock.recv(1 << 16))
        assert endpoint.tls.read(100) + endpoint.tls.read(100) == b"firstsecond"


async def test_what_was_gathered_leaves_in_the_context_of_its_write(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    seen: list[str] = []

    class Sees(ssl.SSLObject):
        def write(self, data: Any) -> int:
            seen.append(NAME.get())
            return super().write(data)

    class Answers(Recorder):
        def data_received(self, data: bytes) -> None:
            context = copy_context()
            context.run(NAME.set, "writer")
            loop.call_soon(self.answer, context=context)

        def answer(self) -> None:
            self.transport.write(b"first")
            self.transport.write(b"second")

    server_context = authority.server_context()
    server_context.sslobject_class = Sees
    async with accepted(authority, Answers, server_context) as endpoint:
        await endpoint.send(b"?")
        assert await endpoint.receive(11) == b"firstsecond"
    assert set(seen) == {"writer"}


@pytest.mark.oneloop_only("asyncio drops what came before, and sends no alert")
@pytest.mark.parametrize("position", [5, -1])
async def test_what_came_before_a_bad_record_is_delivered(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, position: int
) -> None:
    """And the peer is told by an alert."""
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        good, bad = endpoint.encrypted(b"good"), bytearray(endpoint.encrypted(b"bad"))
        bad[position] ^= 1
        await endpoint.raw(good + bytes(bad))
        await protocol.wait_lost()
        assert protocol.received == b"good"
        assert isinstance(protocol.error, ssl.SSLError)
        # The first is of OpenSSL 3.0, the other of later versions.
        assert protocol.error.reason in ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "RECORD_LAYER_FAILURE")
        assert transport.is_closing()
        with pytest.raises(ssl.SSLError, match="ALERT_BAD_RECORD_MAC"):
            await endpoint.receive(1)


@pytest.mark.oneloop_only("asyncio uses OpenSSL's connection in both threads at once, and may crash")
async def test_another_thread_that_writes_meanwhile(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """It should not; but no byte is lost, and nothing breaks."""
    async with facing(authority) as (transport, protocol, endpoint):
        stops = threading.Event()
        written = 0

        def writes() -> None:
            nonlocal written
            while not stops.is_set() and written < ROUNDS:
                transport.write(b"t" * 100)
                written += 1

        thread = threading.Thread(target=writes)
        thread.start()
        try:
            for _ in range(ROUNDS):
                await endpoint.send(b"x" * 2000)
                transport.write(b"l" * 10)
                await asyncio.sleep(0)
        finally:
            stops.set()
            thread.join()
        text = await endpoint.receive(100 * written + 10 * ROUNDS)
        assert (text.count(b"t"), text.count(b"l")) == (100 * written, 10 * ROUNDS)
        assert await happens(lambda: len(protocol.received) == 2000 * ROUNDS)


@pytest.mark.oneloop_only("asyncio's methods fail after a second close")
async def test_a_second_close_lets_go_of_the_context(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """A program that keeps its transports keeps no more than these."""
    context = authority.server_context()
    async with facing(authority, ssl=context) as (transport, protocol, endpoint):
        seen = weakref.ref(context)
        del context
        assert transport.get_extra_info("sslcontext") is seen()
        transport.close()
        await endpoint.say_goodbye()
        await protocol.wait_lost()
        transport.close()
        gc.collect()
        assert transport.get_extra_info("sslcontext") is None
        assert transport.get_extra_info("ssl_object", "gone") == "gone"
        assert transport.get_read_buffer_size() == 0


async def test_its_type_has_the_name_of_asyncios(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Programs look for "SSL" in it (aiosmtplib's tests)."""
    async with facing(authority) as (transport, _protocol, _endpoint):
        assert type(transport).__name__ == "_SSLProtocolTransport"


@pytest.mark.oneloop_only("it is oneloop's")
async def test_it_says_what_it_is(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _protocol, _endpoint):
        assert isinstance(transport, asyncio.Transport)
        assert isinstance(transport, sslproto._SSLProtocolTransport)  # type: ignore[attr-defined]
        assert "ssl" in transport.__class__.__name__.lower()
        assert repr(transport).startswith("<_SSLProtocolTransport Wrapped over <StreamTransport fd=")
        transport.abort()
        assert repr(transport).startswith("<_SSLProtocolTransport closing Unwrapped over ")
        await settled()
        assert repr(transport) == "<_SSLProtocolTransport closing Unwrapped over nothing>"


@pytest.mark.parametrize("size", [1, 2, 4, 5, 6, 100])
async def test_records_that_come_in_pieces(loop: asyncio.AbstractEventLoop, authority: Authority, size: int) -> None:
    async with facing(authority) as (_transport, protocol, endpoint):
        text = b"one" + b"x" * 300
        wire = endpoint.encrypted(b"one") + endpoint.encrypted(b"x" * 300)
        for start in range(0, len(wire), size):
            await endpoint.raw(wire[start : start + size])
            await asyncio.sleep(0)
        assert await happens(lambda: len(protocol.received) == len(text))
        assert protocol.received == text


@pytest.mark.oneloop_only("asyncio takes them")
async def test_a_program_that_lies_about_its_read(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """More bytes than were asked for would have no room."""

    class Greedy(ssl.SSLObject):
        def read(self, *arguments: Any) -> Any:
            data = super().read(*arguments)
            return data + bytes(arguments[0])

    context = authority.server_context()
    context.sslobject_class = Greedy
    problems: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, problem: problems.append(problem))
    async with facing(authority, ssl=context) as (_transport, protocol, endpoint):
        await endpoint.send(b"?")
        await protocol.wait_lost()
    assert isinstance(protocol.error, ValueError)
    assert [str(problem["exception"]) for problem in problems] == [
        "SSLObject.read() returned more bytes than requested"
    ]


async def test_a_class_that_reads_ahead(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """What it has kept is asked for until it has no more, without a further record."""

    class Ahead(ssl.SSLObject):
        kept = b""

        def read(self, *_arguments: Any) -> Any:
            if not self.kept:
                self.kept = super().read(RECORD)
            data, self.kept = self.kept[:10], self.kept[10:]
            return data

    context = authority.server_context()
    context.sslobject_class = Ahead
    async with facing(authority, ssl=context) as (_transport, protocol, endpoint):
        text = bytes(range(255))
        await endpoint.send(text)
        assert await happens(lambda: len(protocol.received) == len(text))
        assert protocol.received == text


class Short(ssl.SSLObject):
    """Takes little at a time."""

    def write(self, data: Any) -> int:
        return super().write(memoryview(data)[:1000])


async def test_a_program_that_writes_little_at_a_time(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    context = authority.server_context()
    context.sslobject_class = Short
    async with facing(authority, ssl=context) as (transport, _protocol, endpoint):
        transport.write(b"x" * 5000)
        assert await endpoint.receive(5000) == b"x" * 5000


@pytest.mark.parametrize("marks", [(1000, 100), (8000, 2000), (16384, 4096)])
async def test_read_marks_below_a_record(
    loop: asyncio.AbstractEventLoop, authority: Authority, marks: tuple[int, int]
) -> None:
    """A record that is not whole yet is nothing that somebody could read to make room."""
    async with facing(authority) as (transport, protocol, endpoint):
        transport.set_read_buffer_limits(*marks)
        wire = endpoint.encrypted(b"x" * 16_000)
        for start in range(0, len(wire), 4000):
            await endpoint.raw(wire[start : start + 4000])
            await settled()
        assert await happens(lambda: len(protocol.received) == 16_000)


@pytest.mark.oneloop_only("asyncio drops what came before a bad record")
async def test_the_error_of_a_record_behind_data_on_which_the_program_closes(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    class Closes(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.close()

    async with facing(authority, Closes) as (_transport, protocol, endpoint):
        good, bad = endpoint.encrypted(b"good"), bytearray(endpoint.encrypted(b"bad"))
        bad[-1] ^= 1
        await endpoint.raw(good + bytes(bad))
        await protocol.wait_lost()
        assert protocol.received == b"good"
        assert isinstance(protocol.error, ssl.SSLError)
        assert protocol.error.reason in ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "RECORD_LAYER_FAILURE")


@pytest.mark.oneloop_only("asyncio's methods fail after it")
async def test_one_close_after_the_loss_takes_nothing_away(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    async with facing(authority) as (transport, protocol, endpoint):
        endpoint.sock.close()
        await protocol.wait_lost()
        transport.close()
        for name in ("ssl_object", "sslcontext", "cipher", "peername"):
            assert transport.get_extra_info(name) is not None, name


async def test_information_while_the_library_is_at_work(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Asked from inside of the library, as another thread might."""
    seen: list[Any] = []
    transports: list[Any] = []

    class Curious(ssl.SSLObject):
        def read(self, *arguments: Any) -> Any:
            for transport in transports:
                seen.append([transport.get_extra_info(name) for name in ("ssl_object", "cipher")])
                transport.get_read_buffer_size()
            return super().read(*arguments)

    context = authority.server_context()
    context.sslobject_class = Curious
    async with facing(authority, ssl=context) as (transport, protocol, endpoint):
        transports.append(transport)
        await endpoint.send(b"?")
        await protocol.wait_received(1)
    assert seen
    assert all(None not in values for values in seen)


@pytest.mark.oneloop_only("asyncio says it in the words of its own states")
@pytest.mark.parametrize("end", ["abort", "close"])
async def test_an_end_in_the_last_step_of_the_handshake(
    loop: asyncio.AbstractEventLoop, authority: Authority, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transports: list[Any] = []

    class Ending(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            getattr(transports[0], end)()

    make = loop._make_ssl_transport  # type: ignore[attr-defined]

    def made(*arguments: Any, **keywords: Any) -> Any:
        transports.append(make(*arguments, **keywords))
        return transports[0]

    monkeypatch.setattr(loop, "_make_ssl_transport", made)
    context = authority.server_context()
    context.sslobject_class = Ending
    protocol = Recorder()
    ours, theirs = socket_pair("tcp")
    with theirs:
        endpoint = Endpoint(theirs, authority.client_context())
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, ours, ssl=context))
        await endpoint.shake_hands()
        with pytest.raises(RuntimeError, match="closed in the last step of its handshake"):
            await task
        await settled()
    assert protocol.calls == []
