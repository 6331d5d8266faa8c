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
from tests.http.site import Receive, Scope, Send, Site, Wire, body_of, secured, small_client
from tests.http.virtual import virtual
from tests.loops import LoopFactory

pytest.importorskip("trustme")

from tests.tls.authority import HOST, Authority

# More than the buffers between a server and a client that reads nothing can take.
LONG_BYTES = 20_000_000
GET = "GET {} HTTP/1.0\r\n\r\n"
# Half of its body.
POST = "POST {} HTTP/1.0\r\nContent-Length: 10\r\n\r\n01234"


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


async def app(scope: Scope, receive: Receive, send: Send) -> None:
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


@asynccontextmanager
async def asked(carrier: str, authority: Authority, request: str) -> AsyncIterator[tuple[Site, Wire]]:
    """A server, and a client that has sent the request, has read a head, and reads no more."""
    options: dict[str, Any] = {}
    context: Any = None
    if carrier != "plain":
        options = {"ssl": authority.client_context(), "server_hostname": HOST}
        context = rustls.server_context(authority.server) if carrier == "rustls" else authority.server_context()
    async with secured(app, context, send_timeout_s=30, body_timeout_s=30) as (site, port):
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
