"""No byte of one response is given to another request: random interleavings, cancellations, early and extra bytes."""

from __future__ import annotations

import asyncio
import random
import re
import threading

import pytest

from oneloop.http import AsyncClient, Limits, RequestError, Timeout
from tests.client.servers import Peer, RawServer
from tests.conftest import settle


def unruly(seed: int) -> RawServer:
    """Answers each request with its number, in one of many ways, some of them wrong."""

    def serve(peer: Peer) -> None:
        chance = random.Random(f"{seed} {peer.number}")
        while head := peer.head():
            number = re.match(rb"\w+ /(\d+)", head)
            assert number is not None
            if b"content-length: 7" in head.lower() and chance.random() < 0.8:
                assert peer.exactly(7) == b"content"
            if chance.random() < 0.2:
                threading.Event().wait(chance.random() * 0.003)
            body = (number[1] + b",") * chance.choice([1, 10, 1000, 30000])
            if not answered(peer, chance.choice(WAYS), body):
                return

    return RawServer(serve)


WAYS = ["length", "chunked", "close", "extra", "cut", "early", "silent", "hint"]


def answered(peer: Peer, way: str, body: bytes) -> bool:
    """Response in one of the ways. Returns whether the connection goes on."""
    if way == "silent":
        return False
    if way == "close":
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        return False
    if way == "chunked":
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 5000):
            piece = body[at : at + 5000]
            peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        peer.send(b"0\r\n\r\n")
        return True
    if way == "hint":
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = len(body) + (10 if way == "cut" else 0)
    # In one piece: what comes after the next request was sent is a response to it, as far as anybody can tell.
    extra = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n9999999," if way == "extra" else b""
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body + extra)
    # "early": the response is complete, and the connection ends.
    return way not in ("cut", "early")


async def fetch(client: AsyncClient, chance: random.Random, url: str) -> bytes:
    """Send a request of some kind. Returns the body, or its beginning."""
    method = chance.choice(["GET", "GET", "POST", "PUT"])
    content = b"content" if method != "GET" else None
    if chance.random() > 0.3:
        return (await client.request(method, url, content=content)).content
    body = b""
    async with client.stream(method, url, content=content) as response:
        async for piece in response.aiter_bytes():
            body += piece
            if chance.random() < 0.1:
                break
    return body


@pytest.mark.parametrize("seed", range(12))
async def test_every_response_is_that_of_its_request(seed: int) -> None:
    chance = random.Random(seed)
    outcomes = {"answered": 0, "failed": 0, "cancelled": 0}
    with unruly(seed) as server:
        limits = Limits(max_connections=chance.choice([1, 3, 20, None]))
        async with AsyncClient(limits=limits, timeout=Timeout(3600.0, read=60.0)) as client:

            async def one(number: int) -> None:
                body = await fetch(client, chance, f"{server.url}/{number}")
                found = set(body.split(b",")[:-1])
                assert found <= {b"%d" % number}, (number, found)

            async def run(number: int) -> None:
                task = asyncio.ensure_future(one(number))
                if chance.random() < 0.25:
                    await settle(chance.randrange(12))
                    if chance.random() < 0.5:
                        await asyncio.sleep(chance.random() * 0.005)
                    task.cancel()
                try:
                    await task
                    outcomes["answered"] += 1
                except asyncio.CancelledError:
                    outcomes["cancelled"] += 1
                except RequestError:
                    outcomes["failed"] += 1

            for start in range(0, 300, 30):
                await asyncio.gather(*[run(number) for number in range(start, start + 30)])
    assert outcomes["answered"] > 50, outcomes
    assert outcomes["cancelled"], outcomes
