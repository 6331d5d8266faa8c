"""Foreign TLS implementations as peers, on both sides: data of all sizes, clean ends by either side, trust."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.protocols import Echo, Recorder
from tests.tls import foreign
from tests.tls.authority import HOST, Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.peers import openssl
from tests.tls.peers.content import content

SIZES = (1, 1000, 16_384, 16_385, 100_000, 1_000_000)
COUNT = 3
TEXT_SIZES = [str(size) for size in SIZES]


# `s_server` serves one connection at a time, and does not close by itself.
CONCURRENT = [name for name in foreign.COMMANDS if name != "openssl"]


@pytest.fixture(params=list(foreign.COMMANDS))
def peer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Counted(Echo):
    """Echoes so many bytes and closes then (0: never); notes how its connection has ended."""

    def __init__(self, limit: int, ends: list[Any]) -> None:
        self.limit = limit
        self.ends = ends
        self.left = limit
        self.saw_eof = False

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        self.left -= len(data)
        if self.limit and not self.left:
            self.transport.close()

    def eof_received(self) -> None:
        self.saw_eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append((self.saw_eof, exc))


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("closer", ["client", "server"])
async def test_their_client(
    loop: asyncio.AbstractEventLoop, authority: Authority, peer: str, version: str, closer: str
) -> None:
    """It checks our certificate, compares every byte and the end; our protocol sees a clean end each time."""
    command = foreign.COMMANDS[peer]()
    limit = sum(SIZES) if closer == "server" else 0
    ends: list[Any] = []
    server = await loop.create_server(
        lambda: Counted(limit, ends), "127.0.0.1", 0, ssl=authority.server_context(version)
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        arguments = ["client", str(port), str(authority.authority), version, str(COUNT), closer, *TEXT_SIZES]
        with foreign.started([*command, *arguments]) as process:
            status, printed = await asyncio.to_thread(foreign.finish, process)
            assert (status, printed) == (0, "ok\n")
        while len(ends) < COUNT:
            await asyncio.sleep(0.001)
    if closer == "client":
        assert ends == [(True, None)] * COUNT
    else:
        # A peer may reset the connection that we have closed, or answer our close_notify, or do neither.
        assert all(exc is None or isinstance(exc, OSError) for _, exc in ends), ends


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("factory", [Recorder, ViewRecorder])
async def test_their_server(
    loop: asyncio.AbstractEventLoop, authority: Authority, peer: str, version: str, factory: type[Recorder]
) -> None:
    """Our client checks its certificate, compares every byte, and closes."""
    command = foreign.COMMANDS[peer]()
    with foreign.serving([*command, "server", str(authority.server), version, "0"]) as port:
        for _ in range(COUNT):
            transport, protocol = await loop.create_connection(
                factory, "127.0.0.1", port, ssl=authority.client_context(version), server_hostname=HOST
            )
            assert transport.get_extra_info("ssl_object").version() == f"TLSv{version}"
            total = b""
            for size in SIZES:
                transport.write(content(size))
                total += content(size)
                assert await protocol.wait_received(len(total)) == total
            transport.close()
            assert await protocol.wait_lost() is None


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("peer", CONCURRENT)
async def test_their_server_closes(
    loop: asyncio.AbstractEventLoop, authority: Authority, peer: str, version: str
) -> None:
    """What it sent before its close_notify arrives whole, then the end, and no error."""
    command = foreign.COMMANDS[peer]()
    size = 300_000
    with foreign.serving([*command, "server", str(authority.server), version, str(size)]) as port:
        for _ in range(COUNT):
            transport, protocol = await loop.create_connection(
                Recorder, "127.0.0.1", port, ssl=authority.client_context(version), server_hostname=HOST
            )
            transport.write(content(size))
            assert await protocol.wait_lost() is None
            assert protocol.received == content(size)
            assert protocol.calls[-2:] == ["eof_received", "connection_lost"]


async def test_a_page_of_openssl(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, tmp_path: Path
) -> None:
    """`s_server -HTTP` sends a file and closes."""
    (tmp_path / "page").write_bytes(content(2_000_000))
    program = foreign.needed("openssl", "s_server")
    port = free_port()
    command = [program, "s_server", "-HTTP", "-accept", f"127.0.0.1:{port}", "-cert", str(authority.server)]
    command += ["-key", str(authority.server)]
    with foreign.started(command, folder=tmp_path) as process:
        openssl.wait_until_listening(process, port)
        for _ in range(COUNT):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=authority.client_context(version), server_hostname=HOST
            )
            writer.write(b"GET /page HTTP/1.0\r\n\r\n")
            assert await reader.read() == content(2_000_000)
            writer.close()
            await writer.wait_closed()


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("peer", CONCURRENT)
async def test_several_connections_at_once(
    loop: asyncio.AbstractEventLoop, authority: Authority, peer: str, version: str
) -> None:
    command = foreign.COMMANDS[peer]()
    context = authority.client_context(version)

    async def one(port: int, size: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST)
        writer.write(content(size))
        await writer.drain()
        assert await reader.readexactly(size) == content(size)
        writer.close()
        await writer.wait_closed()

    with foreign.serving([*command, "server", str(authority.server), version, "0"]) as port:
        await asyncio.gather(*(one(port, 1 + 20_000 * number) for number in range(20)))


@pytest.mark.time_limit(120)
async def test_trust(loop: asyncio.AbstractEventLoop, authority: Authority, peer: str, version: str) -> None:
    """Neither side talks to whom it does not trust, and says so; the server serves on."""
    command = foreign.COMMANDS[peer]()
    ends: list[Any] = []
    server = await loop.create_server(lambda: Counted(0, ends), "127.0.0.1", 0, ssl=authority.server_context(version))
    async with server:
        port = str(server.sockets[0].getsockname()[1])
        for trusted, status in [(authority.other_authority, 1), (authority.authority, 0)]:
            arguments = ["client", port, str(trusted), version, "1", "client", "1000"]
            with foreign.started([*command, *arguments]) as process:
                ended, printed = await asyncio.to_thread(foreign.finish, process)
                assert (ended, printed) == ((status, "ok\n") if status == 0 else (status, "")), trusted
        while not ends or ends[-1] != (True, None):
            await asyncio.sleep(0.001)
    with foreign.serving([*command, "server", str(authority.server), version, "0"]) as port_of_theirs:
        distrusting = authority.client_context(version, trusted=authority.other_authority)
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            await loop.create_connection(Recorder, "127.0.0.1", port_of_theirs, ssl=distrusting, server_hostname=HOST)
        trusting = authority.client_context(version)
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await loop.create_connection(
                Recorder, "127.0.0.1", port_of_theirs, ssl=trusting, server_hostname="wrong.example"
            )
        transport, protocol = await loop.create_connection(
            Recorder, "127.0.0.1", port_of_theirs, ssl=trusting, server_hostname=HOST
        )
        transport.write(b"hello")
        assert await protocol.wait_received(5) == b"hello"
        transport.close()
        await protocol.wait_lost()


@pytest.mark.parametrize("size", [1, 1000, 300_000])
async def test_clients_on_rustls(loop: asyncio.AbstractEventLoop, authority: Authority, size: int) -> None:
    """The bench's generator opens 20 connections, checks our certificate, and compares what comes back."""
    generator = foreign.rustls("loadgen")
    ends: list[Any] = []
    server = await loop.create_server(lambda: Counted(0, ends), "127.0.0.1", 0, ssl=authority.server_context())
    async with server:
        port = server.sockets[0].getsockname()[1]
        command = [generator, "--hold", "answered", "--port", str(port), "--ca", str(authority.authority)]
        command += ["--size", str(size), "--connections", "20"]
        with foreign.started(command) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            first = await asyncio.to_thread(process.stdout.readline)
            assert "ready" in first, first
            process.stdin.write("go\n")
            process.stdin.flush()
            status, _ = await asyncio.to_thread(foreign.finish, process)
            assert status == 0
        while len(ends) < 20:
            await asyncio.sleep(0.001)


async def test_a_server_on_rustls(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """The bench's floor, which speaks TLS 1.3 alone."""
    floor = foreign.rustls("floor")
    with foreign.serving([floor, "echo", "--tls", str(authority.server)]) as port:
        for _ in range(COUNT):
            transport, protocol = await loop.create_connection(
                Recorder, "127.0.0.1", port, ssl=authority.client_context("1.3"), server_hostname=HOST
            )
            assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
            total = b""
            for size in SIZES:
                transport.write(content(size))
                total += content(size)
                assert await protocol.wait_received(len(total)) == total
            transport.close()
            error = await protocol.wait_lost()
            # Its end is not ours to judge: the floor closes without close_notify.
            assert error is None or isinstance(error, OSError)
