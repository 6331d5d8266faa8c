"""Sessions of `oneloop.tls`: resumption, names of servers, reloading, key logs, and handshakes that fail."""

from __future__ import annotations

import asyncio
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme

import oneloop
from oneloop import tls
from tests.protocols import Recorder
from tests.tls.authority import HOST, VERSIONS, Authority
from tests.tls.pair import Pair, connected, failures, outcomes
from tests.transport.conftest import socket_pair

pytestmark = pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")


async def exchange(pair: Pair) -> None:
    """A word in each direction: tickets of TLS 1.3 come behind the handshake."""
    for source, target in ((pair.server, pair.client), (pair.client, pair.server)):
        source.transport.write(b"hello")
        await target.protocol.wait_received(5)


async def is_resumed(loop: asyncio.AbstractEventLoop, server: Any, client: Any, **options: Any) -> bool:
    async with connected(loop, server, client, **options) as pair:
        await exchange(pair)
        reused = {pair.server.ssl_object.session_reused, pair.client.ssl_object.session_reused}
        assert len(reused) == 1
        return bool(reused.pop())


async def test_sessions_are_resumed(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server = tls.server_context(authority.server, maximum_version=VERSIONS[version])
    client = tls.client_context(ca=authority.authority)
    resumed = [await is_resumed(loop, server, client) for _ in range(4)]
    assert resumed == [False, True, True, True]
    async with connected(loop, server, client) as pair:
        assert pair.client.ssl_object.getpeercert()["subjectAltName"]


@pytest.mark.parametrize("side", ["server", "client"])
async def test_sessions_are_not_resumed_on_request(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, side: str
) -> None:
    server = tls.server_context(authority.server, maximum_version=VERSIONS[version], resumption=side != "server")
    client = tls.client_context(ca=authority.authority, resumption=side != "client")
    assert [await is_resumed(loop, server, client) for _ in range(3)] == [False] * 3


async def test_a_server_of_ssl_resumes(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server, client = authority.server_context(version), tls.client_context(ca=authority.authority)
    assert [await is_resumed(loop, server, client) for _ in range(3)] == [False, True, True]


async def test_clients_with_certificates_are_known_again(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    server = tls.server_context(authority.server, client_ca=authority.authority, maximum_version=VERSIONS[version])
    client = tls.client_context(ca=authority.authority, certfile=authority.client)
    for expected in (False, True):
        async with connected(loop, server, client) as pair:
            await exchange(pair)
            assert pair.server.ssl_object.session_reused is expected
            assert pair.server.ssl_object.getpeercert()["subject"][-1] == (("commonName", "a client"),)


async def test_certificates_by_name(loop: asyncio.AbstractEventLoop, authority: Authority, tmp_path: Path) -> None:
    issuer = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    files = {}
    for serial, names in enumerate([("localhost",), ("one.example",), ("*.two.example",), ("bücher.example",)]):
        files[names[0]] = tmp_path / f"{serial}.pem"
        issued = issuer.issue_cert(*names, key_type=trustme.KeyType.ECDSA)
        issued.private_key_and_cert_chain_pem.write_to_path(str(files[names[0]]))
    default = files.pop(HOST)
    server = tls.server_context(default, sni={name.upper(): (path, None) for name, path in files.items()})
    for context in (tls.client_context(ca=tmp_path / "ca.pem"), authority.client_context(trusted=tmp_path / "ca.pem")):
        for name in (HOST, "one.example", "ONE.example", "a.two.example", "bücher.example"):
            async with connected(loop, server, context, hostname=name):
                pass
        for name in ("two.example", "a.b.two.example", "three.example"):
            _, error = await failures(loop, server, context, hostname=name)
            assert isinstance(error, ssl.SSLCertVerificationError)
            assert error.verify_code == 62


async def test_reload_for_new_connections(
    loop: asyncio.AbstractEventLoop, authority: Authority, tmp_path: Path, version: str
) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(authority.server.read_bytes())
    server = tls.server_context(path, maximum_version=VERSIONS[version])
    client = tls.client_context(ca=authority.authority)
    async with connected(loop, server, client) as old:
        await exchange(old)
        path.write_bytes(authority.wrong_host.read_bytes())
        server.reload()
        await exchange(old)
        _, error = await failures(loop, server, client)
        assert isinstance(error, ssl.SSLCertVerificationError)
        async with connected(loop, server, client, hostname="wrong.example") as new:
            await exchange(new)
            await exchange(old)
            assert old.client.ssl_object.getpeercert() != new.client.ssl_object.getpeercert()


async def test_a_reload_that_fails_changes_nothing(
    loop: asyncio.AbstractEventLoop, authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(authority.server.read_bytes())
    server, client = tls.server_context(path), tls.client_context(ca=authority.authority)
    assert not await is_resumed(loop, server, client)
    for content in (b"", authority.authority.read_bytes(), b"-----BEGIN CERTIFICATE-----\n"):
        path.write_bytes(content)
        with pytest.raises(ssl.SSLError, match=str(path)):
            server.reload()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        server.reload()
    assert await is_resumed(loop, server, client)


async def test_a_reload_forgets_sessions(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, tmp_path: Path
) -> None:
    """Who is no longer trusted must not come back with a session."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.authority.read_bytes())
    server = tls.server_context(authority.server, client_ca=trusted, maximum_version=VERSIONS[version])
    client = tls.client_context(ca=authority.authority, certfile=authority.client)
    assert [await is_resumed(loop, server, client) for _ in range(2)] == [False, True]
    trusted.write_bytes(authority.other_authority.read_bytes())
    server.reload()
    error, _ = await failures(loop, server, client)
    assert isinstance(error, ssl.SSLCertVerificationError)
    client.reload()
    trusted.write_bytes(authority.authority.read_bytes())
    server.reload()
    assert [await is_resumed(loop, server, client) for _ in range(2)] == [False, True]


async def test_the_key_log(loop: asyncio.AbstractEventLoop, authority: Authority, version: str, tmp_path: Path) -> None:
    logs = [tmp_path / "server.log", tmp_path / "client.log", tmp_path / "ssl.log"]
    server = tls.server_context(authority.server, keylog_filename=logs[0], maximum_version=VERSIONS[version])
    async with connected(loop, server, tls.client_context(ca=authority.authority, keylog_filename=logs[1])) as pair:
        await exchange(pair)
    lines = [sorted(log.read_text().splitlines()) for log in logs[:2]]
    assert lines[0] == lines[1]
    assert lines[0]
    assert logs[0].stat().st_mode & 0o777 == 0o600
    logs[0].write_text("")
    stock = authority.client_context()
    stock.keylog_filename = str(logs[2])
    async with connected(loop, server, stock) as pair:
        await exchange(pair)
    of_ssl = [line for line in logs[2].read_text().splitlines() if not line.startswith("#")]
    assert set(logs[0].read_text().splitlines()) <= set(of_ssl)
    assert all(line in of_ssl for line in logs[0].read_text().splitlines())


def test_a_key_log_that_cannot_be_opened(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as raised:
        tls.server_context(authority.server, keylog_filename=tmp_path)
    assert raised.value.filename == str(tmp_path)


@pytest.mark.parametrize("highest", ["1.2", "1.3"])
async def test_no_version_in_common(loop: asyncio.AbstractEventLoop, authority: Authority, highest: str) -> None:
    of_server = VERSIONS[highest]
    of_client = VERSIONS["1.2" if highest == "1.3" else "1.3"]
    server = tls.server_context(authority.server, minimum_version=of_server, maximum_version=of_server)
    client = tls.client_context(ca=authority.authority, minimum_version=of_client, maximum_version=of_client)
    found, told = await failures(loop, server, client)
    assert isinstance(found, ssl.SSLError)
    assert found.reason == "UNSUPPORTED_PROTOCOL"
    assert isinstance(told, ssl.SSLError)
    assert told.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


async def test_no_cipher_in_common(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    client = authority.client_context("1.2")
    client.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
    found, told = await failures(loop, tls.server_context(authority.server), client)
    assert isinstance(found, ssl.SSLError)
    assert found.reason == "NO_SHARED_CIPHER"
    assert isinstance(told, ssl.SSLError)
    assert told.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"


async def test_the_server_prefers(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    client = authority.client_context("1.2")
    server = tls.server_context(authority.server)
    names = ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"]
    for offered, chosen in ((names, names[2]), (names[:2], names[1]), (names[:1], names[0])):
        client.set_ciphers(":".join(offered))
        async with connected(loop, server, client) as pair:
            assert pair.server.ssl_object.cipher()[0] == chosen


async def test_no_application_protocol_in_common(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """RFC 7301: the server refuses. ssl goes on without one."""
    server = tls.server_context(authority.server, alpn=["h2"])
    client = tls.client_context(ca=authority.authority, alpn=["http/1.1"])
    found, told = await failures(loop, server, client)
    assert isinstance(found, ssl.SSLError)
    assert found.reason == "NO_APPLICATION_PROTOCOL"
    assert isinstance(told, ssl.SSLError)
    assert told.reason == "TLSV1_ALERT_NO_APPLICATION_PROTOCOL"
    for offers in ([], ["h2"]):
        client = tls.client_context(ca=authority.authority, alpn=offers)
        async with connected(loop, server, client) as pair:
            assert pair.client.ssl_object.selected_alpn_protocol() == (offers[0] if offers else None)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "WRONG_VERSION_NUMBER"),
        (b"\x16\x03\x01\xff\xff" + b"x" * 100, "PACKET_LENGTH_TOO_LONG"),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", "BAD_PACKET"),
        (b"\x17\x03\x03\x00\x10" + b"x" * 16, "UNEXPECTED_MESSAGE"),
    ],
    ids=["http", "long", "short", "data"],
)
async def test_a_client_that_speaks_no_tls(
    loop: asyncio.AbstractEventLoop, authority: Authority, words: bytes, reason: str
) -> None:
    sock, peer = socket_pair("unix")
    with peer:
        server: Any = tls.server_context(authority.server)
        accepting = asyncio.ensure_future(loop.connect_accepted_socket(Recorder, sock, ssl=server))
        await loop.sock_sendall(peer, words)
        with pytest.raises(ssl.SSLError) as raised:
            await accepting
        assert raised.value.reason == reason
        alert = await loop.sock_recv(peer, 100)
        assert alert[0] == 21, "an alert"


async def test_a_server_that_says_goodbye_at_once(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Anybody on the way may have said it: only the end of the stream counts."""
    sock, peer = socket_pair("unix")
    client: Any = tls.client_context(ca=authority.authority)
    with peer:
        connecting = asyncio.ensure_future(
            loop.create_connection(Recorder, sock=sock, ssl=client, server_hostname=HOST)
        )
        await loop.sock_recv(peer, 10_000)
        await loop.sock_sendall(peer, b"\x15\x03\x03\x00\x02\x01\x00")
        peer.close()
        with pytest.raises(ConnectionResetError):
            await connecting


async def test_records_that_were_changed(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    """One flipped bit in a record of data: both ends are told."""
    limit = VERSIONS[version]
    server: Any = tls.server_context(authority.server, maximum_version=limit)
    client_sock, to_client = socket_pair("unix")
    to_server, server_sock = socket_pair("unix")
    flips = False

    async def carry(source: Any, target: Any) -> None:
        while data := await loop.sock_recv(source, 65536):
            if flips:
                data = data[:-1] + bytes([data[-1] ^ 1])
            await loop.sock_sendall(target, data)

    carriers = [
        asyncio.ensure_future(carry(to_client, to_server)),
        asyncio.ensure_future(carry(to_server, to_client)),
    ]
    client_context: Any = tls.client_context(ca=authority.authority)
    (_, accepted), (transport, made) = await asyncio.gather(
        loop.connect_accepted_socket(Recorder, server_sock, ssl=server),
        loop.create_connection(Recorder, sock=client_sock, ssl=client_context, server_hostname=HOST),
    )
    transport.write(b"hello")
    await accepted.wait_received(5)
    flips = True
    transport.write(b"world")
    error = await accepted.wait_lost()
    assert isinstance(error, ssl.SSLError)
    assert error.reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    assert accepted.received == b"hello"
    for task in carriers:
        task.cancel()
    await asyncio.wait(carriers)
    for end in (to_client, to_server):
        end.close()
    transport.abort()
    await made.wait_lost()


async def test_many_handshakes_at_once(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server, client = tls.server_context(authority.server), tls.client_context(ca=authority.authority)
    data = os.urandom(50_000)

    async def one() -> None:
        async with connected(loop, server, client) as pair:
            for source, target in ((pair.server, pair.client), (pair.client, pair.server)):
                source.transport.write(data)
                assert await target.protocol.wait_received(len(data)) == data

    await asyncio.gather(*(one() for _ in range(30)))


def test_contexts_of_several_threads(authority: Authority) -> None:
    """One context, two loops at once."""
    server, client = tls.server_context(authority.server), tls.client_context(ca=authority.authority)

    async def several() -> int:
        running = asyncio.get_running_loop()
        for _ in range(20):
            for end in await outcomes(running, server, client):
                assert not isinstance(end, BaseException)
                end.transport.abort()
                await end.protocol.wait_lost()
        return 20

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(oneloop.run, several()) for _ in range(2)]
        assert [one.result() for one in running] == [20, 20]
