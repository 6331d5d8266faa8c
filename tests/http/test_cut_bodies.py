"""A body of HTTP/1.0 without a length ends with its connection: one that is cut must not end as a whole one does.

A reset is the only end of a connection that no client takes for an orderly one. TLS's close_notify is orderly, too (RFC
8446 section 6.1), and that it is missing is often overlooked. In virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oneloop import testing
from oneloop import tls as rustls
from tests.http.records import Records
from tests.http.site import Message, Receive, Scope, Send, Site, Wire, body_of, reply, secured, small_client
from tests.http.socket_client import SocketClient
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory

pytest.importorskip("trustme")

from tests.tls.authority import HOST, Authority

# More than the buffers between a server and a client that reads nothing can take.
LONG_BYTES = 20_000_000
GET = "GET {} HTTP/1.0\r\n\r\n"
# Half of its body.
POST = "POST {} HTTP/1.0\r\nContent-Length: 10\r\n\r\n01234"
# A request before them on the same connection, and the body of its response, whose length is known.
BEFORE = "GET /before HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
WHOLE = b"w" * 100_000


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/before":
        await reply(send, WHOLE)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"part", "more_body": True})
    path = scope["path"]
    if path == "/fails":
        raise ValueError("in the middle")
    if path == "/reads":
        await body_of(receive)
    if path == "/waits":
        while (await receive())["type"] != "http.disconnect":
            pass
    if path == "/parts":
        for _ in range(LONG_BYTES // 100_000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
    await send({"type": "http.response.body", "body": b"" if path != "/long" else bytes(LONG_BYTES)})


async def nothing(site: Site, wire: Wire) -> None:
    """The application fails, or the time of the request's body is over."""


async def is_late(site: Site, wire: Wire) -> None:
    """The client reads nothing for longer than `--timeout-send`."""
    await asyncio.sleep(100)


async def stop(site: Site, wire: Wire) -> None:
    site.http.shut_down()
    site.http.cancel()
    await asyncio.sleep(0)
    site.http.abort()


async def end_side(site: Site, wire: Wire) -> None:
    """The client ends its side within its body, and reads on."""
    wire.end()


CUTS: list[tuple[str, Callable[[Site, Wire], Any]]] = [
    (GET.format("/fails"), nothing),
    (POST.format("/reads"), nothing),
    (POST.format("/reads"), end_side),
    (GET.format("/parts"), is_late),
    (GET.format("/parts"), stop),
    # Its application has ended, and the rest waits in the transport.
    (GET.format("/long"), is_late),
    (GET.format("/long"), stop),
    (GET.format("/waits"), stop),
]
CARRIERS = ["plain", "rustls", "openssl"]
# A TLS connection ends with either side: nobody reads on.
CELLS = [(*cut, carrier) for cut in CUTS for carrier in CARRIERS if cut[1] is not end_side or carrier == "plain"]


def context_of(carrier: str, authority: Authority) -> Any:
    """The server's."""
    if carrier == "plain":
        return None
    return rustls.server_context(authority.server) if carrier == "rustls" else authority.server_context()


@asynccontextmanager
async def asked(carrier: str, authority: Authority, request: str) -> AsyncIterator[tuple[Site, Wire]]:
    """A server, and a client that has sent the request, has read a head, and reads no more."""
    options: dict[str, Any] = {}
    if carrier != "plain":
        options = {"ssl": authority.client_context(), "server_hostname": HOST}
    async with secured(app, context_of(carrier, authority), send_timeout_s=30, body_timeout_s=30) as (site, port):
        wire = await small_client(port, **options)
        site.wires.append(wire)
        await wire.send(request.encode())
        await wire.head()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        yield site, wire


@pytest.mark.parametrize(("request_", "cut", "carrier"), CELLS)
@virtual
async def test_a_body_that_is_cut(
    request_: str, cut: Callable[[Site, Wire], Any], carrier: str, authority: Authority
) -> None:
    async with asked(carrier, authority, request_) as (site, wire):
        await cut(site, wire)
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError):
            await wire.rest()


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("path", ["/", "/parts", "/long"])
@virtual
async def test_a_whole_body(path: str, carrier: str, authority: Authority) -> None:
    """The server stops meanwhile, in time."""
    async with asked(carrier, authority, GET.format(path)) as (site, wire):
        site.http.shut_down()
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        body = await wire.rest()
        assert len(body) == len(b"part") + (0 if path == "/" else LONG_BYTES)


# Each ends when the client has not read anything yet.
UNREAD = [cell for cell in CELLS if cell[1] in (nothing, end_side)]


@pytest.mark.parametrize("before", ["", BEFORE])
@pytest.mark.parametrize(("request_", "cut", "carrier"), UNREAD)
@virtual
async def test_what_was_sent_before_a_cut(
    before: str, request_: str, cut: Callable[[Site, Wire], Any], carrier: str, authority: Authority
) -> None:
    """A reset makes the system drop what its client does not have yet."""
    told = Records()
    begun = asyncio.Event()

    async def begins(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            await send(message)
            if message.get("body") == b"part":
                begun.set()

        await app(scope, receive, note)

    # No other end than the cut.
    options: dict[str, Any] = {"on_response": told.on_response, "send_timeout_s": None, "body_timeout_s": 30}
    async with secured(begins, context_of(carrier, authority), **options) as (site, port):
        client = await SocketClient.connect(port, None if carrier == "plain" else authority.client_context(), HOST)
        await client.send((before + request_).encode())
        await begun.wait()
        if cut is end_side:
            client.end()
        # Later than the body's deadline.
        await asyncio.sleep(45)
        with pytest.raises(ConnectionResetError):
            await client.rest()
        # However long it has waited for that.
        assert now_s() <= 47
        _, _, got = client.got.partition(b"\r\n\r\n")
        if before:
            assert got.startswith(WHOLE)
            _, _, got = got.partition(b"\r\n\r\n")
        assert got == b"part"
        await site.until_empty()
        client.close()
    assert [row.is_complete for row in told.rows] == [True] * bool(before) + [False]


@pytest.mark.parametrize("carrier", CARRIERS)
@virtual
async def test_a_cut_does_not_wait_for_a_client_that_reads_nothing(carrier: str, authority: Authority) -> None:
    async with secured(app, context_of(carrier, authority), send_timeout_s=30) as (site, port):
        client = await SocketClient.connect(port, None if carrier == "plain" else authority.client_context(), HOST)
        await client.send((BEFORE + GET.format("/fails")).encode())
        while not site.http.connections:
            await asyncio.sleep(0)
        while site.http.connections and now_s() < 300:
            await asyncio.sleep(1)
        assert 30 <= now_s() <= 40
        with pytest.raises(ConnectionResetError):
            await client.rest()
        client.close()


@pytest.mark.parametrize("carrier", CARRIERS)
@virtual
async def test_a_client_that_sends_on_after_a_cut(carrier: str, authority: Authority) -> None:
    """It reads when it has sent all; the server, which has read no more for a while, drops that."""

    async def fails_late(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/before":
            await asyncio.sleep(1)
        await app(scope, receive, send)

    async with secured(fails_late, context_of(carrier, authority), send_timeout_s=None, body_timeout_s=None) as served:
        site, port = served
        client = await SocketClient.connect(port, None if carrier == "plain" else authority.client_context(), HOST)
        await client.send((BEFORE + POST.replace(": 10", f": {LONG_BYTES + 5}").format("/fails")).encode())
        await client.send(bytes(LONG_BYTES))
        with pytest.raises(ConnectionResetError):
            await client.rest()
        assert client.got.endswith(b"\r\n\r\npart")
        await site.until_empty()
        client.close()


@pytest.mark.parametrize("request_", [GET.format("/fails"), POST.format("/reads")])
@pytest.mark.parametrize("carrier", CARRIERS)
@virtual
async def test_the_end_of_a_client_is_not_answered_by_one(carrier: str, request_: str, authority: Authority) -> None:
    """That would mark the end of the body."""
    async with secured(app, context_of(carrier, authority), send_timeout_s=None) as (site, port):
        client = await SocketClient.connect(port, None if carrier == "plain" else authority.client_context(), HOST)
        await client.send((BEFORE + request_).encode())
        # The application has failed, or waits for the rest of the body.
        await asyncio.sleep(1)
        await client.say_goodbye()
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await site.until_empty()
        client.close()
