"""Each end and each limit of a connection, for each way to respond, on each transport.

What clients that leave, stop reading or stop sending leave behind in the server: memory stays flat, descriptors and
threads come back, others are served. The end by a new certificate, and by another application, is in `test_tls` and
`test_reload`.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.http.hostile import (
    LEAVING,
    LIMIT_S,
    SHORT,
    TIMES_S,
    TRANSPORTS,
    WAYS,
    Site,
    close_half,
    ending_well,
    request,
    send_while_taken,
    site,
)
from tests.http.service import read_all
from tests.tls.authority import Authority

MIB = 1 << 20
# The response that is under way, and what the allocators keep; with all clients of a test, their responses.
FLAT, FLAT_FOR_ALL = 6 * MIB, 24 * MIB
MOST = 8 * MIB
"""Bytes of requests that are sent to a server that takes them all."""
PINGS_S = ("--ws-ping-interval", "0.4", "--ws-ping-timeout", "0.4")
LIMITS = (*TIMES_S, *PINGS_S, "--limit-concurrency", "100")
SERVERS = [(mode, transport) for mode in WAYS for transport in TRANSPORTS]


@pytest.fixture(scope="module", params=SERVERS, ids="-".join)
def served(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Site]:
    mode, transport = request.param
    with ending_well(mode, transport, authority, *LIMITS) as made:
        yield made


@pytest.mark.parametrize("number", range(7))
def test_requests_of_a_client_that_does_not_read(served: Site, number: int) -> None:
    way = served.ways[number]
    if way == "websocket":
        pytest.skip("it takes no requests; messages that are not read are in test_websocket_messages")
    before = served.probe.memory_bytes()
    with served.connect() as client:
        size = send_while_taken(client, request(way, "short") * 100, MOST, served.probe)
        grown = served.probe.memory_bytes() - before
        assert grown < FLAT, f"{way}: {size} bytes of requests, {grown >> 20} MiB"
        served.served(way)
    served.came_back()


@pytest.mark.parametrize("end", LEAVING)
def test_clients_that_leave(served: Site, end: str) -> None:
    """While their responses are under way, and before these begin."""
    before = served.probe.memory_bytes()
    for way in served.ways:
        for is_begun in (True, True, True, False):
            client = served.connect()
            client.sendall(request(way, "long"))
            if is_begun:
                assert client.recv(1) == b"H", way
            LEAVING[end](client)
    served.came_back()
    assert served.probe.memory_bytes() - before < FLAT_FOR_ALL


@pytest.mark.parametrize("mode", WAYS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_written_to_clients_that_have_left(mode: str, transport: str, authority: Authority) -> None:
    """Asyncio's transports warn of such writes, with words that say nothing of the client."""
    with site(mode, transport, authority) as served:
        for way in set(served.ways) - {"own", "bodyless"}:
            for _ in range(20):
                client = served.connect()
                client.sendall(request(way, "long"))
                assert client.recv(1) == b"H", way
                LEAVING["reset"](client)
        served.came_back()
        assert served.service.end() == 0
        assert "raised exception" not in served.service.log.text
        assert "Traceback" not in served.service.log.text


@pytest.fixture(scope="module", params=SERVERS, ids="-".join)
def crowded(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Site]:
    """One that is full with few clients, none of which it ends."""
    mode, transport = request.param
    with ending_well(mode, transport, authority, "--limit-concurrency", str(FEW)) as made:
        yield made


FEW = 6


@pytest.mark.parametrize("end", LEAVING)
def test_clients_that_leave_make_room(crowded: Site, end: str) -> None:
    """As many as are served at once, all in one way: others are refused, until these have left."""
    for way in crowded.ways:
        if way == "own":
            continue  # It ends with its response.
        clients = [crowded.connect() for _ in range(FEW)]
        for client in clients:
            client.sendall(request(way, "long"))
            assert client.recv(1) == b"H", way
        assert crowded.ask(request("bodyless", "")).startswith(b"HTTP/1.1 503 "), way
        for client in clients:
            LEAVING[end](client)
        end_s = time.monotonic() + LIMIT_S
        while crowded.ask(request("bodyless", "", "GET", "Connection: close")).startswith(b"HTTP/1.1 503 "):
            # A thread that still makes its response counts, too.
            assert time.monotonic() < end_s, way
        crowded.came_back()


@pytest.fixture(scope="module", params=TRANSPORTS)
def waiting(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Site]:
    """Without deadlines that could end a client in place of its application."""
    with ending_well("asgi", request.param, authority) as made:
        yield made


# How many requests are sent behind the first one. Much: more than the server's own buffer takes.
BEHIND = {"nothing": 0, "one request": 1, "much": 1000}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("end", [*LEAVING, "half", "half, reset"])
@pytest.mark.parametrize(("method", "way"), [("GET", "events"), ("HEAD", "events"), ("HEAD", "endless")])
def test_clients_that_leave_a_request_that_does_not_end(
    waiting: Site, method: str, way: str, end: str, behind: str
) -> None:
    """Requests behind it change nothing: the application is told, or cannot send, and the connection ends."""
    with waiting.connect(1 << 18) as client:
        client.sendall(request(way, "short", method))
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        for _ in range(2):
            # The server has read the first of them when the second ones come: these stay in its socket.
            client.sendall(request("bodyless", "") * BEHIND[behind])
            waiting.probe.rest()
        if end.startswith("half"):
            close_half(client)
        if end != "half":
            LEAVING[end.removeprefix("half, ")](client)
        else:
            with contextlib.suppress(OSError):
                read_all(client)
        waiting.came_back()
        waiting.probe.rest()


SILENT: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"G",
    "half a head": b"GET / HTTP/1.1\r\nHo",
    "one byte of a body": request("read", "short", "POST", "Content-Length: 10") + b"x",
    "much of a body": request("read", "short", "POST", "Content-Length: 200000") + bytes(150_000),
    "no chunk": request("read", "short", "POST", "Transfer-Encoding: chunked"),
    "no body that was asked for": request("read", "short", "POST", "Content-Length: 10", "Expect: 100-continue"),
    "a head behind an answer": request("bodyless", "") + b"GET",
    "idle behind an answer": request("bodyless", ""),
}
"""What clients send before they fall silent."""


def test_clients_that_fall_silent(served: Site) -> None:
    """More of them than threads; each is ended by its deadline."""
    with ExitStack() as stack:
        clients: dict[str, socket.socket] = {}

        def open_one(name: str, data: bytes) -> socket.socket:
            clients[name] = stack.enter_context(served.connect())
            clients[name].sendall(data)
            return clients[name]

        for name, data in SILENT.items():
            for number in range(9 if "asked for" in name else 1):
                open_one(f"{name} {number}", data)
        for way in served.ways:
            open_one(f"{way}, not read", request(way, "long"))
            if way != "websocket":
                open_one(f"{way}, pipelined and not read", request(way, "short") * 50)
            close_half(open_one(f"{way}, half closed and not read", request(way, "long")))
        served.came_back()


@pytest.mark.parametrize("is_half_closed", [False, True])
@pytest.mark.parametrize("mode", WAYS)
def test_held_requests_are_answered_later(mode: str, is_half_closed: bool, authority: Authority) -> None:
    """Responses that are not read hold the further requests back; they are not refused, nor forgotten."""
    count = 60
    with site(mode, "plain", authority, "--timeout-keep-alive", "0.1") as served:
        with ExitStack() as stack:
            clients = {}
            for way in served.ways:
                if way in ("own", "websocket"):
                    continue  # Nothing follows them.
                client = clients[way] = stack.enter_context(served.connect(1 << 18))
                last = () if is_half_closed else ("Connection: close",)
                client.sendall(request(way, "short") * (count - 1) + request(way, "short", "GET", *last))
                if is_half_closed:
                    close_half(client)
            served.probe.rest()
            time.sleep(0.3)  # the keep-alive time does not count
            for way, client in clients.items():
                got = read_all(client)
                assert got.count(b"HTTP/1.1 ") == count, way
                assert way == "bodyless" or len(got) > count * SHORT


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_clients_that_do_not_hold_up_the_end(transport: str, authority: Authority) -> None:
    """SIGTERM while clients neither read nor send: their deadlines end them."""
    with ExitStack() as stack:
        sites = [stack.enter_context(site(mode, transport, authority, *LIMITS)) for mode in WAYS]
        for served in sites:
            for way in served.ways:
                stack.enter_context(served.connect()).sendall(request(way, "long"))
                stack.enter_context(served.connect()).sendall(request("read", "short", "POST", "Content-Length: 9"))
                gone = served.connect()
                gone.sendall(request(way, "long"))
                gone.close()
        for served in sites:
            assert served.service.end() == 0, served.service.log.text
