"""Contexts of `oneloop.tls` against those of `ssl` and against each other: data, and what the ends see."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from oneloop import tls
from tests.conftest import settle
from tests.protocols import BufferedRecorder, Echo, Recorder
from tests.tls.authority import HOST, VERSIONS, Authority
from tests.tls.pair import connected

pytestmark = pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")

MAKERS = [("oneloop", "ssl"), ("ssl", "oneloop"), ("oneloop", "oneloop")]


def server_context(maker: str, authority: Authority, version: str, alpn: Iterable[str] = ()) -> Any:
    if maker == "oneloop":
        limit = VERSIONS[version]
        return tls.server_context(authority.server, alpn=alpn, minimum_version=limit, maximum_version=limit)
    context = authority.server_context(version)
    context.set_alpn_protocols(list(alpn))
    return context


def client_context(maker: str, authority: Authority, version: str, alpn: Iterable[str] = ()) -> Any:
    if maker == "oneloop":
        limit = VERSIONS[version]
        return tls.client_context(ca=authority.authority, alpn=alpn, minimum_version=limit, maximum_version=limit)
    context = authority.client_context(version)
    context.set_alpn_protocols(list(alpn))
    return context


@pytest.mark.parametrize("makers", MAKERS, ids="-".join)
@pytest.mark.parametrize("factory", [Recorder, BufferedRecorder])
async def test_data_both_ways(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, makers: tuple[str, str], factory: Any
) -> None:
    server = server_context(makers[0], authority, version)
    client = client_context(makers[1], authority, version)
    async with connected(loop, server, client, protocol=factory) as pair:
        for source, target in ((pair.server, pair.client), (pair.client, pair.server)):
            sent = bytearray()
            for size in (1, 2, 1000, 16384, 16385, 70_000, 3_000_000):
                data = os.urandom(size)
                sent += data
                source.transport.write(data)
                received = await target.protocol.wait_received(len(sent))
                assert received == sent


@pytest.mark.parametrize("makers", MAKERS, ids="-".join)
async def test_both_ends_see_the_same(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, makers: tuple[str, str]
) -> None:
    server = server_context(makers[0], authority, version, ["h2", "http/1.1"])
    client = client_context(makers[1], authority, version, ["spdy/3", "http/1.1"])
    async with connected(loop, server, client) as pair:
        ends = [pair.server.ssl_object, pair.client.ssl_object]
        for end, is_server in zip(ends, (True, False), strict=True):
            assert end.server_side is is_server
            assert end.server_hostname == (None if is_server else HOST)
            assert end.version() == f"TLSv{version}"
            assert end.selected_alpn_protocol() == "http/1.1"
            assert end.compression() is None
            assert end.session_reused is False
        name, tls_version, bits = ends[0].cipher()
        assert ends[1].cipher() == (name, tls_version, bits)
        assert (name, tls_version) in {
            (one["name"], one["protocol"]) for one in authority.client_context().get_ciphers()
        }
        transports = (pair.server.transport, pair.client.transport)
        assert [end.get_extra_info("sslcontext") for end in transports] == [server, client]
        assert [end.get_extra_info("cipher") for end in transports] == [ends[0].cipher()] * 2
        assert pair.server.transport.get_extra_info("peercert") is None
        assert pair.client.transport.get_extra_info("peercert")["subjectAltName"]


@pytest.mark.parametrize(
    "file", ["server", "client", "expired", "authority", "allsans.pem", "keycert3.pem", "nosan.pem"]
)
async def test_certificates_are_shown_as_ssl_shows_them(
    loop: asyncio.AbstractEventLoop, authority: Authority, file: str, tmp_path: Path
) -> None:
    """Nobody verifies them here, so that ssl shows bytes only: its decoder is asked for the rest."""
    from test.test_asyncio import utils as cpython

    data = Path(cpython.ONLYCERT).parent
    path = data / file if file.endswith(".pem") else getattr(authority, file)
    der = ssl.PEM_cert_to_DER_cert(_first_certificate(path))
    pem = tmp_path / "certificate.pem"
    pem.write_text(ssl.DER_cert_to_PEM_cert(der))
    assert tls._decode_certificate(der) == ssl._ssl._test_decode_cert(str(pem))  # type: ignore[attr-defined]


def _first_certificate(path: Path) -> str:
    text = path.read_text()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return text[text.index(begin) : text.index(end) + len(end)]


async def test_the_certificate_of_the_peer(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server = tls.server_context(authority.server)
    shown = []
    for client in (authority.client_context(version), client_context("oneloop", authority, version)):
        async with connected(loop, server, client) as pair:
            end = pair.client.ssl_object
            shown.append((end.getpeercert(), end.getpeercert(binary_form=True)))
    assert shown[0] == shown[1]
    assert shown[0][0]


async def test_the_chain_of_the_peer(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server = tls.server_context(authority.server)
    async with connected(loop, server, client_context("oneloop", authority, "1.3")) as pair:
        chain = pair.client.ssl_object.get_unverified_chain()
        assert chain[0] == pair.client.ssl_object.getpeercert(True)
        assert pair.server.ssl_object.get_unverified_chain() == []
        if hasattr(ssl.SSLObject, "get_unverified_chain"):
            async with connected(loop, server, authority.client_context()) as other:
                assert chain == other.client.ssl_object.get_unverified_chain()


async def test_channel_bindings(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server = server_context("oneloop", authority, version)
    client = client_context("oneloop", authority, version)
    async with connected(loop, server, client) as pair, connected(loop, server, client) as other:
        ends = [pair.server.ssl_object, pair.client.ssl_object, other.client.ssl_object]
        with pytest.raises(ValueError, match="'tls-unique' channel binding type not implemented"):
            ends[0].get_channel_binding("tls-unique")
        if version == "1.2":
            with pytest.raises(ValueError, match=r"needs TLS 1\.3"):
                ends[0].get_channel_binding("tls-exporter")
            return
        bindings = [end.get_channel_binding("tls-exporter") for end in ends]
        assert len(bindings[0]) == 32
        assert bindings[0] == bindings[1] != bindings[2]


async def test_what_a_connection_does_not_offer_is_named(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server = tls.server_context(authority.server)
    async with connected(loop, server, authority.client_context()) as pair:
        end = pair.server.ssl_object
        assert end.context is server
        for name in ("shared_ciphers", "selected_npn_protocol", "session", "read", "do_handshake"):
            with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*use an ssl.SSLContext"):
                getattr(end, name)
        with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
            _ = end.nothing


@pytest.mark.parametrize("makers", MAKERS, ids="-".join)
async def test_servers_and_connections_of_the_loop(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, makers: tuple[str, str], tmp_path: Path
) -> None:
    server = server_context(makers[0], authority, version)
    client = client_context(makers[1], authority, version)
    place = str(tmp_path / "socket")
    for listening, connect in (
        (await loop.create_server(Echo, "127.0.0.1", 0, ssl=server), None),
        (await loop.create_unix_server(Echo, place, ssl=server), place),
    ):
        async with listening:
            if connect is None:
                host, port = listening.sockets[0].getsockname()
                making: Any = loop.create_connection(Recorder, host, port, ssl=client, server_hostname=HOST)
            else:
                making = loop.create_unix_connection(Recorder, connect, ssl=client, server_hostname=HOST)
            transport, protocol = await making
            transport.write(b"hello")
            assert await protocol.wait_received(5) == b"hello"
            transport.close()
            assert await protocol.wait_lost() is None


async def test_streams(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(
        serve, "127.0.0.1", 0, ssl=server_context("oneloop", authority, version), limit=1 << 20
    )
    reader, writer = await asyncio.open_connection(
        *server.sockets[0].getsockname(),
        ssl=client_context("oneloop", authority, version),
        server_hostname=HOST,
        limit=1 << 20,
    )
    for size in (0, 10, 20_000, 500_000):
        writer.write(b"x" * size + b"\n")
        assert await reader.readline() == b"X" * size + b"\n"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("makers", MAKERS, ids="-".join)
async def test_start_tls(loop: asyncio.AbstractEventLoop, authority: Authority, makers: tuple[str, str]) -> None:
    """Also within TLS."""
    server = server_context(makers[0], authority, "1.3")
    client = client_context(makers[1], authority, "1.3")
    async with connected(loop, None, None, hostname=None) as pair:
        ends = [pair.server, pair.client]
        for _ in range(3):
            accepting = loop.start_tls(ends[0].transport, ends[0].protocol, server, server_side=True)
            connecting = loop.start_tls(ends[1].transport, ends[1].protocol, client, server_hostname=HOST)
            ends[0].transport, ends[1].transport = await asyncio.gather(accepting, connecting)
            data = os.urandom(200_000)
            for end in ends:
                end.protocol.received.clear()
                end.transport.write(data)
            for end in ends:
                assert await end.protocol.wait_received(len(data)) == data


async def test_a_paused_reader_misses_nothing(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server = server_context("oneloop", authority, "1.3")
    async with connected(loop, server, client_context("oneloop", authority, "1.3")) as pair:
        pair.server.transport.pause_reading()
        data = os.urandom(2_000_000)
        pair.client.transport.write(data)
        await settle(50)
        assert not pair.server.protocol.received
        pair.server.transport.resume_reading()
        assert await pair.server.protocol.wait_received(len(data)) == data


async def test_close_says_goodbye(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server = server_context("oneloop", authority, version)
    async with connected(loop, server, client_context("ssl", authority, version)) as pair:
        pair.server.transport.write(b"the last words")
        pair.server.transport.close()
        assert await pair.client.protocol.wait_lost() is None
        assert pair.client.protocol.received == b"the last words"
        assert "eof_received" in pair.client.protocol.calls
