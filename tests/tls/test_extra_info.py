"""What a TLS transport tells of itself: extra info, debug logs, warnings; and in which context it calls."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import ssl
import weakref
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.endpoint import connected, facing, settled
from tests.transport.conftest import socket_pair

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


async def test_after_the_handshake(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    async with connected(authority, version=version) as (transport, _, accepted, _):
        for end, other, is_client in ((transport, accepted, True), (accepted, transport, False)):
            secure = end.get_extra_info("ssl_object")
            assert isinstance(secure, ssl.SSLObject)
            assert secure.version() == f"TLSv{version}"
            assert secure.server_side is not is_client
            assert isinstance(end.get_extra_info("sslcontext"), ssl.SSLContext)
            assert secure.context is end.get_extra_info("sslcontext")
            assert end.get_extra_info("cipher") == secure.cipher()
            assert end.get_extra_info("compression") is None
            assert end.get_extra_info("peercert") == (secure.getpeercert() if is_client else None)
            assert end.get_extra_info("sockname") == other.get_extra_info("peername")
            assert end.get_extra_info("socket").fileno() > 0
            assert end.get_extra_info("nothing") is None
            assert end.get_extra_info("nothing", 5) == 5
        names = transport.get_extra_info("peercert")["subjectAltName"]
        assert ("DNS", HOST) in names


async def test_after_the_end(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, protocol, endpoint):
        cipher = transport.get_extra_info("cipher")
        await endpoint.say_goodbye()
        await protocol.wait_lost()
        assert transport.get_extra_info("cipher") == cipher
        assert transport.get_extra_info("sslcontext") is not None
        assert transport.is_closing()


async def test_in_connection_made(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Everything is known by then."""
    told: dict[str, Any] = {}

    class Asks(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            told.update({name: transport.get_extra_info(name) for name in ("cipher", "peercert", "peername")})
            told["version"] = transport.get_extra_info("ssl_object").version()

    async with facing(authority, Asks, server_side=False) as (transport, _, _):
        assert told["version"].startswith("TLSv1.")
        assert told["peercert"]
        assert told["cipher"] == transport.get_extra_info("cipher")


async def test_protocols_can_be_changed(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, protocol, endpoint):
        assert transport.get_protocol() is protocol
        await endpoint.send(b"one")
        await protocol.wait_received(3)
        second = Recorder()
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        await endpoint.send(b"two")
        assert await second.wait_received(3) == b"two"
        assert protocol.received == b"one"


async def test_methods_see_the_context_of_who_made_the_transport(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    seen: list[tuple[str, str]] = []

    class Sees(Recorder):
        def _note(self, call: str) -> None:
            seen.append((call, NAME.get()))
            super()._note(call)

    async def make() -> Any:
        NAME.set("maker")
        return await loop.create_connection(Sees, sock=ours, ssl=authority.client_context(), server_hostname=HOST)

    ours, theirs = socket_pair("tcp")
    accepting = loop.create_task(loop.connect_accepted_socket(Recorder, theirs, ssl=authority.server_context()))
    _, protocol = await loop.create_task(make())
    accepted, _ = await accepting
    accepted.write(b"x")
    await protocol.wait_received(1)
    accepted.close()
    await protocol.wait_lost()
    assert seen == [(call, "maker") for call in ("connection_made", "data_received", "eof_received", "connection_lost")]
    await settled()


async def test_a_server_s_methods_see_the_context_of_who_made_it(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    seen: list[str] = []

    class Sees(Recorder):
        def _note(self, call: str) -> None:
            seen.append(NAME.get())
            super()._note(call)

    async def make() -> asyncio.Server:
        NAME.set("maker")
        return await loop.create_server(Sees, "127.0.0.1", 0, ssl=authority.server_context())

    server = await loop.create_task(make())
    transport, protocol = await loop.create_connection(
        Recorder, *server.sockets[0].getsockname(), ssl=authority.client_context(), server_hostname=HOST
    )
    transport.write(b"x")
    transport.close()
    await protocol.wait_lost()
    await settled()
    assert len(seen) == 4
    assert set(seen) == {"maker"}
    server.close()
    await server.wait_closed()
    await settled()


async def test_debug_logs(
    loop: asyncio.AbstractEventLoop, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    loop.set_debug(True)
    with caplog.at_level(logging.DEBUG, "asyncio"):
        async with facing(authority) as (_, protocol, endpoint):
            endpoint.sock.shutdown(1)
            await protocol.wait_lost()
        ours, theirs = socket_pair("tcp")
        with theirs:
            theirs.send(b"nonsense" * 10)
            with pytest.raises(ssl.SSLError):
                await loop.connect_accepted_socket(Recorder, ours, ssl=authority.server_context())
            await settled()
    loop.set_debug(False)
    for part in ("starts SSL handshake", "SSL handshake took", "received EOF", "SSL handshake failed"):
        assert any(part in message for message in caplog.messages), (part, caplog.messages)


async def test_a_transport_that_was_closed_is_free(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """No cycle keeps a transport, its protocol or its `ssl` object after the end."""
    gc.collect()
    gc.disable()
    try:
        async with facing(authority) as (transport, protocol, endpoint):
            await endpoint.send(b"x")
            await protocol.wait_received(1)
            secure = transport.get_extra_info("ssl_object")
            references = [weakref.ref(protocol), weakref.ref(secure)]
            await endpoint.say_goodbye()
            await protocol.wait_lost()
            await settled()
            protocol.transport = None
        del transport, protocol, secure
        await settled()
        left = [reference() for reference in references if reference() is not None]
    finally:
        gc.enable()
    assert not left
