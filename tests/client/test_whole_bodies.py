"""Long bodies that are read whole: received into the bytes object that they become."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from itertools import pairwise

import pytest

from oneloop.http import AsyncClient, RemoteProtocolError
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, secured
from tests.programs import run_ok

KIB = 1024
MIB = 1024 * KIB
RECEIVED_MOST = 256 * KIB
"""What the client receives at once."""
FORETOLD_MOST = 64 * MIB
"""What the client makes room for because of the announced length alone."""


def content(length: int) -> bytes:
    """Bytes that show where they stand."""
    return b"".join(b"%07d," % number for number in range(length // 8 + 1))[:length]


def serving(*parts: bytes, length: int) -> Callable[[Peer], None]:
    """Answer each request with these parts of a body, each sent when the one before has arrived."""

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            for part in parts:
                peer.wait_delivered()
                peer.send(part)

    return serve


@pytest.mark.parametrize(
    "cuts",
    [
        pytest.param([], id="the head alone before it"),
        pytest.param([1], id="one byte"),
        pytest.param([300, 301, 5000], id="short parts"),
        pytest.param([-1], id="all but one byte"),
    ],
)
@pytest.mark.parametrize("length", [6000, RECEIVED_MOST, RECEIVED_MOST + 1, 2 * MIB + 3])
def test_it_is_the_same_however_it_arrives(caller: Caller, length: int, cuts: list[int]) -> None:
    body = content(length)
    places = [0, *(cut % length for cut in cuts), length]
    parts = [body[start:end] for start, end in pairwise(places)]
    with RawServer(serving(*parts, length=length)) as server:
        assert [caller.get(server.url).content == body for _ in range(2)] == [True, True]
        assert server.connections == 1


def test_over_tls(make_caller: MakeCaller) -> None:
    body = content(2 * MIB + 3)
    caller = make_caller(verify=False)
    with secured(serving(body[:10], body[10:], length=len(body))) as server:
        assert caller.get(server.url).content == body


async def test_longer_than_what_is_made_room_for() -> None:
    body = content(MIB) * 130
    assert len(body) > 2 * FORETOLD_MOST
    with RawServer(serving(body, length=len(body))) as server:
        async with AsyncClient() as client:
            assert (await client.get(server.url)).content == body


async def test_what_had_arrived_before_somebody_waited_for_it() -> None:
    body = content(2 * MIB + 3)
    with RawServer(serving(body[:1000], body[1000:], length=len(body))) as server:
        async with AsyncClient() as client, client.stream("GET", server.url) as response:
            while response._exchange.transport.is_reading():
                await asyncio.sleep(0.001)
            assert await response.aread() == body


@pytest.mark.parametrize("length", [RECEIVED_MOST - 100, RECEIVED_MOST, 2 * MIB])
def test_bytes_behind_it_are_no_response(caller: Caller, length: int) -> None:
    body = content(length)
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    with RawServer(serving(body[:100], body[100:] + forged, length=length)) as server:
        for _ in range(2):
            assert caller.get(server.url).content == body
        assert server.connections == 2


@pytest.mark.parametrize("announced", [MIB, FORETOLD_MOST + 1, 2**62])
def test_the_server_sends_less_than_it_has_announced(caller: Caller, announced: int) -> None:
    body = content(300 * KIB)

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % announced)
        peer.send(body)
        peer.end()

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    missing = announced - len(body)
    with RawServer(serve) as server, pytest.raises(RemoteProtocolError, match=f"{missing} bytes before the end"):
        caller.get(server.url)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after_kib - before_kib < 32 * KIB, "room that was not used takes no memory"


WITHOUT_ROOM = """
import resource
import oneloop.http
from tests.client.servers import RawServer

ANNOUNCED = {announced}

def serve(peer):
    peer.head()
    peer.send(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % ANNOUNCED + bytes(300_000))
    peer.end()

def get():
    try:
        client.get(server.url)
    except oneloop.http.RemoteProtocolError as error:
        print(error)

with RawServer(serve) as server, oneloop.http.Client() as client:
    # What every request needs is there.
    get()
    in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ANNOUNCED // 2, resource.RLIM_INFINITY))
    get()
"""


def test_no_memory_for_what_was_announced() -> None:
    """The server may never send so much. What it sends is more than one receive, so that the rest is waited for."""
    said = run_ok("oneloop", WITHOUT_ROOM.format(announced=FORETOLD_MOST)).splitlines()
    assert len(said) == 2
    assert all(f"{FORETOLD_MOST - 300_000} bytes before the end" in line for line in said), said
