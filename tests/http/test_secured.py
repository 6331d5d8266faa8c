"""HTTP over TLS: the same connections, and what the application is told of the handshake."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from oneloop import tls as rustls
from tests.http.frames import TEXT, Frame, Socket, frame, handshake
from tests.http.site import GET, Echo, Receive, Scope, Send, Site, Wire, secured

pytest.importorskip("trustme")

from tests.tls.authority import HOST, Authority


@pytest.fixture(params=["openssl", "rustls"])
def context(request: pytest.FixtureRequest, authority: Authority) -> Any:
    if request.param == "openssl":
        return authority.server_context()
    return rustls.server_context(authority.server)


async def connect(site: Site, port: int, authority: Authority, **files: Any) -> Wire:
    context = authority.client_context()
    if files:
        context.load_cert_chain(**files)
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST))
    site.wires.append(wire)
    return wire


async def test_requests(authority: Authority, context: Any) -> None:
    echo = Echo()
    body = bytes(300_000)
    async with secured(echo, context) as (site, port):
        wire = await connect(site, port, authority)
        for _ in range(3):
            response = await wire.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert response.body == body
        await wire.send(GET * 5)
        for _ in range(5):
            assert (await wire.answer()).status == 200
        assert (await wire.ask(b"X\r\n\r\n")).status == 400
        assert await wire.rest() == b""
    for heard in echo.heard:
        assert heard.scope["scheme"] == "https"
        assert heard.scope["client"][0] == "127.0.0.1"
        assert heard.scope["server"] == ("127.0.0.1", port)
        assert set(heard.scope["extensions"]["tls"]) == {
            "server_cert", "client_cert_chain", "client_cert_name", "client_cert_error", "tls_version", "cipher_suite"
        }  # fmt: skip


async def test_the_extension(authority: Authority) -> None:
    echo = Echo()
    context = authority.server_context()
    context.load_verify_locations(authority.authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with secured(echo, context) as (site, port):
        for files in ({}, {"certfile": authority.client}):
            wire = await connect(site, port, authority, **files)
            for _ in range(2):
                await wire.ask()
    without, _, own, again = [heard.scope["extensions"]["tls"] for heard in echo.heard]
    assert without["tls_version"] == own["tls_version"] == 0x0304
    assert own["cipher_suite"] in (0x1301, 0x1302, 0x1303)
    assert (without["client_cert_chain"], without["client_cert_name"]) == ([], None)
    assert own["client_cert_chain"][0].startswith("-----BEGIN CERTIFICATE-----\n")
    assert "CN=a client" in own["client_cert_name"]
    assert own == again
    assert own is not again


async def test_a_websocket(authority: Authority, context: Any) -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})

    async with secured(app, context) as (site, port):
        wire = await connect(site, port, authority)
        socket = Socket(wire, await wire.ask(handshake()))
        for size in (1, 100_000):
            await socket.send(frame(TEXT, b"a" * size))
            assert await socket.frame() == Frame(TEXT, b"a" * size)
    assert scopes[0]["scheme"] == "wss"
    assert set(scopes[0]["extensions"]) == {"tls", "websocket.http.response"}


async def test_a_long_response_to_a_slow_reader(authority: Authority, context: Any) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        await send({"type": "http.response.body"})

    async with secured(app, context) as (site, port):
        wire = await connect(site, port, authority)
        await wire.send(GET)
        await asyncio.sleep(0.05)
        assert len((await wire.answer()).body) == 10_000_000
