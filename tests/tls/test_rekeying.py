"""New keys in the middle: renegotiation in TLS 1.2, KeyUpdate in TLS 1.3, asked for by `s_client` and `s_server`."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.ports import free_port
from tests.protocols import Recorder, keeping
from tests.tls import foreign
from tests.tls.authority import HOST, Authority
from tests.tls.endpoint import settled
from tests.tls.peers import openssl
from tests.tls.peers.content import content

# SSL_OP_ALLOW_CLIENT_RENEGOTIATION; `ssl` has no name for it.
ALLOW_CLIENT_RENEGOTIATION = 1 << 8


class Talk:
    """A talk with OpenSSL's program: lines to it, and what it prints, which is what came with words of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.printed = b""

    def say(self, line: bytes) -> None:
        """A line of one letter is a command, if it comes alone."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def wait_for(self, words: bytes) -> None:
        """Read until these words have come; each is waited for once."""
        assert self.process.stdout is not None
        while words not in self.printed:
            data = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            assert data, f"ended without {words!r}: {self.printed[-500:]!r}"
            self.printed += data
        self.printed = self.printed.partition(words)[2]


@contextmanager
def talking(*command: str) -> Iterator[Talk]:
    program = foreign.needed("openssl", "s_client and s_server")
    process = subprocess.Popen(
        [program, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield Talk(process)
    finally:
        process.kill()
        process.communicate()


def letters(count: int) -> bytes:
    return bytes(97 + index % 26 for index in range(count))


class Server(Recorder):
    """Answers each line with 300,000 bytes and the line."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        for line in data.split():
            self.transport.write(letters(300_000))
            self.transport.write(b"<" + line + b">")


@pytest.mark.parametrize(
    ("version", "command", "told"),
    [("1.2", b"R", b"RENEGOTIATING"), ("1.3", b"K", b"KEYUPDATE"), ("1.3", b"k", b"KEYUPDATE")],
    ids=["renegotiation", "both keys", "one key"],
)
async def test_a_client_asks(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, command: bytes, told: bytes
) -> None:
    context = authority.server_context(version)
    context.options |= ALLOW_CLIENT_RENEGOTIATION
    made: list[Server] = []
    server = await loop.create_server(keeping(made, Server), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    def client() -> None:
        with talking("s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", str(authority.authority)) as talk:
            talk.say(b"before")
            talk.wait_for(b"<before>")
            for number in range(5):
                talk.say(command)
                talk.wait_for(told)
                word = b"word%d" % number
                talk.say(word)
                talk.wait_for(b"<" + word + b">")
            talk.say(b"Q")
            assert talk.process.wait() == 0

    await asyncio.to_thread(client)
    assert await made[0].wait_lost() is None
    assert made[0].received == b"before\n" + b"".join(b"word%d\n" % number for number in range(5))
    server.close()
    await server.wait_closed()
    await settled()


async def test_a_client_may_not_ask(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """OpenSSL refuses by a warning, upon which `s_client` gives up; the server serves on."""
    made: list[Server] = []
    server = await loop.create_server(keeping(made, Server), "127.0.0.1", 0, ssl=authority.server_context("1.2"))
    port = server.sockets[0].getsockname()[1]

    def client() -> None:
        for _ in range(2):
            with talking("s_client", "-connect", f"127.0.0.1:{port}") as talk:
                talk.say(b"before")
                talk.wait_for(b"<before>")
                talk.say(b"R")
                talk.wait_for(b"no renegotiation")
                assert talk.process.wait() != 0

    await asyncio.to_thread(client)
    for protocol in made:
        error = await protocol.wait_lost()
        assert error is None or isinstance(error, OSError)
        assert protocol.received == b"before\n"
    server.close()
    await server.wait_closed()
    await settled()


@pytest.mark.parametrize(
    ("version", "command"),
    [("1.2", b"r"), ("1.2", b"R"), ("1.3", b"K"), ("1.3", b"k")],
    ids=["renegotiation", "renegotiation with certificate", "both keys", "one key"],
)
async def test_a_server_asks(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, command: bytes
) -> None:
    """While our client writes, too: what it writes meanwhile arrives, in order."""
    port = free_port()
    arguments = ["s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(authority.server)]
    arguments += ["-key", str(authority.server)]
    with talking(*arguments) as talk:
        openssl.wait_until_listening(talk.process, port)
        transport, protocol = await loop.create_connection(
            Recorder, "127.0.0.1", port, ssl=authority.client_context(version), server_hostname=HOST
        )
        expected = b""
        for number in range(11):
            word = content(12_000 + number)
            await asyncio.to_thread(talk.say, word)
            expected += word + b"\n"
            assert await protocol.wait_received(len(expected)) == expected
            # It looks at its input first, so the command is done when what we write now has come.
            # After the last round nothing is under way.
            if number < 10:
                await asyncio.to_thread(talk.say, command)
            for part in range(3):
                piece = b"[%d %d]" % (number, part) + letters(20_000) + b"(%d %d)" % (number, part)
                transport.write(piece)
                await asyncio.sleep(0)
            await asyncio.to_thread(talk.wait_for, b"(%d 2)" % number)
        transport.close()
        assert await protocol.wait_lost() is None
        assert protocol.received == expected
