"""Clients that read slowly, or nothing, and what else they do meanwhile: who reads gets all. In virtual time.

For HTTP/2: `test_http2_timeouts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oneloop import testing
from oneloop import tls as rustls
from tests.http.http2_peer import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, frame, head
from tests.http.site import GET, App, Receive, Scope, Send, Site, Wire, body_of, reply, secured, serving, small_client
from tests.http.socket_client import SocketClient
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory

pytest.importorskip("trustme")

from tests.tls.authority import HOST, Authority

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
LAST = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
WIDE = (1 << 30).to_bytes(4)
# With windows that never close.
H2 = PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + WIDE) + frame(WINDOW_UPDATE, 0, 0, WIDE)


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


@pytest.mark.parametrize("reads", [False, True])
@virtual
async def test_who_sends_a_body_slowly_has_to_read_all_the_same(reads: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        reading = asyncio.ensure_future(body_of(receive)) if reads else None
        try:
            await send({"type": "http.response.body", "body": bytes(20_000_000), "more_body": True})
            await send({"type": "http.response.body"})
        finally:
            if reading is not None:
                await asyncio.gather(reading, return_exceptions=True)

    async with serving(app, send_timeout_s=30, body_timeout_s=30) as site:
        # A `small_client` that does not read has no room for what acknowledges its own bytes.
        wire = await site.connect()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(POST)
        while not site.http.connections:
            await asyncio.sleep(0)
        while (site.http.connections or site.http.requests) and now_s() < 300:
            wire.writer.write(b"x")
            await asyncio.sleep(10)
        assert (site.http.connections, site.http.requests) == (0, 0)
        assert now_s() <= 100
        wire.reset()
        await wire.close()


@virtual
async def test_a_body_has_its_time_again_when_its_client_has_read() -> None:
    """While the client has to read, it need not send; then it must."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(20_000_000), "more_body": True})
        await body_of(receive)

    async with serving(app, send_timeout_s=1000, body_timeout_s=30) as site:
        wire = await small_client(site.port)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(POST)
        await asyncio.sleep(100)
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await wire.rest()) > 20_000_000
        assert 130 <= now_s() <= 135
        await wire.close()


def context_of(library: str, authority: Authority) -> Any:
    """The server's."""
    return rustls.server_context(authority.server) if library == "rustls" else authority.server_context()


@asynccontextmanager
async def asked_last(app: App, library: str, authority: Authority, **options: Any) -> AsyncIterator[tuple[Site, Wire]]:
    """A client that has sent its last request over TLS, and has read a head."""
    async with secured(app, context_of(library, authority), **options) as (site, port):
        wire = await small_client(port, ssl=authority.client_context(), server_hostname=HOST)
        site.wires.append(wire)
        await wire.send(LAST)
        await wire.head()
        yield site, wire


@pytest.mark.parametrize("library", ["rustls", "openssl"])
@virtual
async def test_a_last_response_over_tls_is_read_slowly(library: str, authority: Authority) -> None:
    """Longer than a shutdown of TLS may take otherwise."""
    size = 20_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size))

    async with asked_last(app, library, authority) as (_, wire):
        got = 0
        while data := await wire.reader.read(100_000):
            got += len(data)
            if now_s() < 300:
                await asyncio.sleep(10)
        assert got == size


@pytest.mark.parametrize("library", ["rustls", "openssl"])
@virtual
async def test_a_last_response_over_tls_that_nobody_reads(library: str, authority: Authority) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(20_000_000))

    async with asked_last(app, library, authority, send_timeout_s=60) as (site, wire):
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while site.http.connections and now_s() < 300:
            await asyncio.sleep(1)
        assert site.http.connections == 0
        assert now_s() <= 150


@pytest.mark.parametrize("library", ["rustls", "openssl"])
@pytest.mark.parametrize("send_timeout_s", [60, None])
@pytest.mark.parametrize("version", ["1.1", "2"])
@virtual
async def test_who_has_read_all_over_tls_holds_up_no_stop(
    version: str, send_timeout_s: float | None, library: str, authority: Authority
) -> None:
    """The client reads nothing at first; then it reads all, and keeps its socket, as a pool of connections does."""
    # The system takes all of it.
    size = 250_000
    asked: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)
        await reply(send, bytes(size))

    async with secured(app, context_of(library, authority), send_timeout_s=send_timeout_s) as (site, port):
        client = await SocketClient.connect(port, authority.client_context(), HOST)
        await client.send(LAST if version == "1.1" else H2 + frame(HEADERS, END_HEADERS | END_STREAM, 1, head()))
        while not asked:
            await asyncio.sleep(0)
        site.http.shut_down()
        # The server has seen that its client does not read.
        await asyncio.sleep(4)
        assert len(await client.rest()) > size
        read_s = now_s()
        while site.http.connections and now_s() < 300:
            await asyncio.sleep(0.5)
        assert site.http.connections == 0
        assert now_s() - read_s <= 6
        client.close()


@virtual
async def test_who_stops_reading_after_the_end_of_the_response() -> None:
    """What the transport had is with the system, which the client does not read either."""
    size = 8_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size))

    async with serving(app, send_timeout_s=30) as site:
        client = await SocketClient.connect(site.port)
        await client.send(POST)
        await asyncio.sleep(4)
        while len(client.got) < size - 100_000:
            assert await client.read()
        while site.http.connections and now_s() < 300:
            await asyncio.sleep(1)
        assert site.http.connections == 0
        assert now_s() <= 50
        client.close()
