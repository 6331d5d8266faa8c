"""Each end of a client of HTTP/2, for each way to respond, on each transport: the matrix of `test_leaving` for streams.

A client leaves by a reset of its stream or with its connection, opens no window, or reads nothing: memory stays flat,
descriptors and threads come back, others are served.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.http.hostile import LEAVING, TIMES_S, TRANSPORTS, WAYS, Site, close_half, ending_well, send_while_taken, site
from tests.http.http2_peer import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    frames,
    head,
)
from tests.tls.authority import Authority

MIB = 1 << 20
# A hundred streams at once, each with the part of its response that is under way.
FLAT = 24 * MIB
AT_ONCE, MOST = 100, 5000
"""Streams that the server takes at once, and more than it takes of one client."""
LIMITS = (*TIMES_S, "--limit-concurrency", "300")
# What carries the streams knows nothing of the application: each kind meets a plain transport and one with TLS.
SERVERS = [
    *(("asgi", transport) for transport in TRANSPORTS),
    *(("threads", transport) for transport in ("plain", "openssl")),
    *(("green", transport) for transport in ("plain", "rustls")),
]
CANCEL = struct.pack(">I", 8)
# The window of each stream: none, or all that there can be.
CLOSED, WIDE = (struct.pack(">HI", 4, size) for size in (0, (1 << 31) - 1))
OPENS = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1 - 65_535))


@pytest.fixture(scope="module", params=SERVERS, ids="-".join)
def served(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Site]:
    mode, transport = request.param
    with ending_well(mode, transport, authority, *LIMITS) as made:
        yield made


def ways_of(served: Site) -> list[str]:
    """WebSockets are in `test_http2_ends`; of the server's own responses, those to streams are 404 here."""
    return [way for way in served.ways if way not in ("websocket", "own")]


def asks(way: str, stream: int, *fields: tuple[str, str], ends: bool = True) -> bytes:
    """The frame of a request that is answered in this way, with a long body."""
    path = {"static": "/files/long.bin", "bodyless": "/files/missing"}.get(way, f"/{way}/long")
    block = head(*fields, path=path, method="GET" if ends else "POST")
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block)


def begin(served: Site, settings: bytes) -> socket.socket:
    """A connection of HTTP/2, with this window for each stream."""
    client = served.connect(protocol="h2")
    assert not isinstance(client, ssl.SSLSocket) or client.selected_alpn_protocol() == "h2"
    client.sendall(PREFACE + frame(SETTINGS, 0, 0, settings) + OPENS)
    return client


def wait_for_head(client: socket.socket) -> None:
    got = b""
    while not any(kind == HEADERS for kind, _, _ in frames(got)):
        data = client.recv(1000)
        assert data, got
        got += data


@pytest.mark.parametrize("settings", [CLOSED, WIDE], ids=["no window", "nothing read"])
@pytest.mark.parametrize("number", range(6))
def test_many_requests_of_a_client_that_does_not_read(served: Site, number: int, settings: bytes) -> None:
    ways = ways_of(served)
    if number >= len(ways):
        pytest.skip("ASGI has one way fewer here: its WebSockets are in test_http2_ends")
    way = ways[number]
    before = served.probe.memory_bytes()
    with begin(served, settings) as client:
        for streams in (range(1, 2 * AT_ONCE, 2), range(2 * AT_ONCE + 1, 2 * MOST, 2)):
            data = b"".join(asks(way, stream) for stream in streams)
            # The server stops to read from a client that takes no responses, or ends it.
            send_while_taken(client, data, len(data), served.probe)
            grown = served.probe.memory_bytes() - before
            assert grown < FLAT, f"{way}: {grown >> 20} MiB"
        served.served(way)
    served.came_back()


def reset_the_stream(client: socket.socket) -> None:
    client.sendall(frame(RST_STREAM, 0, 1, CANCEL))


ENDS: dict[str, Callable[[socket.socket], None]] = {**LEAVING, "half": close_half, "stream": reset_the_stream}


@pytest.mark.parametrize("settings", [CLOSED, WIDE], ids=["no window", "nothing read"])
@pytest.mark.parametrize("end", ENDS)
def test_clients_that_leave(served: Site, end: str, settings: bytes) -> None:
    """While their responses are under way, and before these begin."""
    before = served.probe.memory_bytes()
    with ExitStack() as stack:
        for way in ways_of(served):
            for is_begun in (True, True, True, False):
                client = stack.enter_context(begin(served, settings))
                client.sendall(asks(way, 1))
                if is_begun:
                    wait_for_head(client)
                ENDS[end](client)
        served.came_back()
    assert served.probe.memory_bytes() - before < FLAT


@pytest.fixture(scope="module", params=TRANSPORTS)
def waiting(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Site]:
    """Without deadlines that could end a client in place of its application; few requests fill it."""
    with ending_well("asgi", request.param, authority, "--limit-concurrency", "8", "--timeout-body", "0") as made:
        yield made


@pytest.mark.parametrize("settings", [CLOSED, WIDE], ids=["no window", "nothing read"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", ["events", "endless"])
def test_clients_that_leave_a_request_that_does_not_end(waiting: Site, way: str, end: str, settings: bytes) -> None:
    """The application is told, or cannot send: no request counts on, also where its connection stays."""
    with ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(begin(waiting, settings))
            client.sendall(asks(way, 1))
            wait_for_head(client)
            ENDS[end](client)
            waiting.probe.rest()
    waiting.came_back()


LATE = frame(DATA, 0, 1, b"x")
SILENT: dict[str, bytes] = {
    "nothing": b"",
    "half a frame": asks("read", 1)[:12],
    "half a head": frame(HEADERS, END_STREAM, 1, head()),
    "no body": asks("read", 1, ends=False),
    "no body that was asked for": asks("read", 1, ("expect", "100-continue"), ("content-length", "9"), ends=False),
    "one byte of a body": asks("read", 1, ("content-length", "9"), ends=False) + LATE,
    "much of a body": asks("read", 1, ends=False) + frame(DATA, 0, 1, bytes(16_000)) * 4,
    "idle behind an answer": asks("bodyless", 1),
}
"""What clients send before they fall silent."""


def test_clients_that_fall_silent(served: Site) -> None:
    """More of them than threads; each is ended by its deadline."""
    with ExitStack() as stack:
        for data in SILENT.values():
            for _ in range(9):
                stack.enter_context(begin(served, WIDE)).sendall(data)
        for way in ways_of(served):
            for settings in (CLOSED, WIDE):
                client = stack.enter_context(begin(served, settings))
                client.sendall(b"".join(asks(way, stream) for stream in range(1, 20, 2)))
        served.came_back()


@pytest.mark.parametrize("mode", WAYS)
def test_clients_that_do_not_hold_up_the_end(mode: str, authority: Authority) -> None:
    """SIGTERM while clients neither read nor send, open no window, or have gone."""
    with site(mode, "plain", authority, *LIMITS) as served, ExitStack() as stack:
        for way in ways_of(served):
            for settings in (CLOSED, WIDE):
                stack.enter_context(begin(served, settings)).sendall(asks(way, 1))
                gone = begin(served, settings)
                gone.sendall(asks(way, 1))
                gone.close()
        stack.enter_context(begin(served, WIDE)).sendall(SILENT["no body"])
        assert served.service.end() == 0, served.service.log.text
