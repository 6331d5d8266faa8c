"""Handshakes that were changed on the way: each ends with an error of ssl's or the network's, and nothing is left."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from oneloop import tls
from tests.protocols import Recorder
from tests.tls.authority import HOST, VERSIONS, Authority
from tests.transport.conftest import socket_pair

pytestmark = pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")

ROUNDS = 3500


def mutate(dice: random.Random, flight: bytes) -> bytes:
    """One change of a random kind. Never what it was."""
    kinds: list[Callable[[bytearray, int], bytes]] = [
        lambda data, at: bytes(data[:at]),
        lambda data, at: bytes(data[:at]) + bytes([data[at] ^ (1 << dice.randrange(8))]) + bytes(data[at + 1 :]),
        lambda data, at: bytes(data[:at]) + dice.randbytes(dice.randrange(1, 40)) + bytes(data[at:]),
        lambda data, at: bytes(data[:at]) + bytes(data[at + dice.randrange(1, 40) :]),
        lambda data, at: bytes(data[at:]),
        lambda data, at: bytes(data[at:] + data[:at]),
        lambda data, at: dice.randbytes(len(data)),
    ]
    while True:
        changed = dice.choice(kinds)(bytearray(flight), dice.randrange(len(flight)))
        if changed != flight:
            return changed


def client_flight(context: ssl.SSLContext) -> bytes:
    """What a client says first."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def server_flight(context: ssl.SSLContext, hello: bytes) -> bytes:
    """What a server of ssl answers."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(hello)
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    return outgoing.read()


async def ended(making: Any) -> BaseException | None:
    try:
        transport, protocol = await making
    except (ssl.SSLError, OSError) as error:
        return error
    transport.abort()
    await protocol.wait_lost()
    return None


async def test_a_server(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    dice = random.Random(7)
    server: Any = tls.server_context(authority.server, alpn=["h2"], client_ca=authority.authority)
    flight = client_flight(authority.client_context(version))
    for _ in range(ROUNDS):
        sock, peer = socket_pair("unix")
        with peer:
            peer.send(mutate(dice, flight))
            peer.shutdown(1)
            error = await ended(loop.connect_accepted_socket(Recorder, sock, ssl=server))
        assert isinstance(error, (ssl.SSLError, ConnectionError)), error
        assert str(error) or isinstance(error, ConnectionError)


async def test_a_client(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    dice = random.Random(8)
    limit = VERSIONS[version]
    client: Any = tls.client_context(ca=authority.authority, minimum_version=limit, maximum_version=limit)
    server = authority.server_context(version)
    harmless = 0
    for _ in range(ROUNDS // 2):
        sock, peer = socket_pair("unix")
        with peer:
            connecting = asyncio.ensure_future(
                ended(loop.create_connection(Recorder, sock=sock, ssl=client, server_hostname=HOST))
            )
            hello = await loop.sock_recv(peer, 10_000)
            peer.send(mutate(dice, server_flight(server, hello)))
            peer.shutdown(1)
            error = await connecting
        if error is None:
            harmless += 1
        else:
            assert isinstance(error, (ssl.SSLError, ConnectionError)), error
    # RFC 8446, 5.1: the version in the header of a record is ignored; a change_cipher_spec means nothing.
    assert harmless < ROUNDS // 100
