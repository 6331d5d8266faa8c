"""One access line and one count for each response that was begun, on each transport, over HTTP/1.1 and HTTP/2.

`test_records` and `test_cut_streams` have all ways to respond and to leave, on a plain transport in one process.
"""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import Counter

import pytest

from tests.http.hostile import LEAVING, LIMIT_S, TRANSPORTS, Site, site
from tests.http.http2_peer import Peer
from tests.http.service import read_all
from tests.tls.authority import HOST, Authority

# What carries responses knows nothing of the application: each kind meets a plain transport and one with TLS.
SERVERS = [
    *(("asgi", transport) for transport in TRANSPORTS),
    *(("threads", transport) for transport in ("plain", "openssl")),
    *(("green", transport) for transport in ("unix", "rustls")),
]
CANCEL = 8


def path_of(way: str, size: str, number: int) -> str:
    """A path that no other request of the test has."""
    path = {"own": "/", "static": f"/files/{size}.bin", "bodyless": "/files/missing"}.get(way, f"/{way}/{size}")
    return f"{path}?{number}"


def whole(served: Site, protocol: str, way: str, path: str) -> int:
    """Read the whole response; returns its status."""
    if protocol == "h2":
        with Peer(served.connect(1 << 18, protocol)) as peer:
            response = peer.get(path)
            assert response.is_complete
            return response.status
    client = served.connect(1 << 18)
    host = "" if way == "own" else f"Host: {HOST}\r\n"
    client.sendall(f"GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode())
    return int(read_all(client)[9:12])


def cut(served: Site, protocol: str, path: str, end: str) -> None:
    """Leave when the response has begun, with most of it unread."""
    client: socket.socket = served.connect(protocol=protocol)
    if protocol == "http/1.1":
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        assert client.recv(1) == b"H"
        LEAVING[end](client)
        return
    with Peer(client) as peer:
        stream = peer.ask(path)
        peer.unread.add(stream)
        while not peer.responses[stream].fields:
            assert peer.read()
        if end in LEAVING:
            LEAVING[end](client)
            return
        peer.h2.reset_stream(stream, CANCEL)
        peer.flush()
        # The connection goes on.
        assert peer.get(path_of("bodyless", "", 0)).status == 404


def counts(served: Site, cuts: int) -> int:
    """Wait until so many cut responses are counted, which a thread finds out late; returns the count of all."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        text = served.answers()
        incomplete, all_of_them = (
            sum(int(number) for number in re.findall(rf"^oneloop_http_{name}{{.*}} (\d+)", text, re.MULTILINE))
            for name in ("incomplete_responses_total", "requests_total")
        )
        assert incomplete <= cuts
        if incomplete == cuts:
            return all_of_them
        assert time.monotonic() < end_s, f"{incomplete} of {cuts} are counted as cut"


@pytest.mark.parametrize(("mode", "transport"), SERVERS)
def test_each_response_is_recorded_once(mode: str, transport: str, authority: Authority) -> None:
    options = ("--access-log", "--metrics", "/metrics")
    expected: list[tuple[str, str, int]] = []
    cuts = 0
    numbers = itertools.count(1)
    with site(mode, transport, authority, *options) as served:
        for protocol, version in (("http/1.1", "1.1"), ("h2", "2")):
            for way in served.ways:
                if way == "websocket" or (way == "own" and protocol == "h2"):
                    continue  # A WebSocket is recorded when it is opened; streams that are refused are 404s here.
                path = path_of(way, "short", next(numbers))
                expected.append((path, version, whole(served, protocol, way, path)))
                for end in () if way in ("own", "bodyless") else (*LEAVING, *(["stream"] if protocol == "h2" else [])):
                    path = path_of(way, "long", next(numbers))
                    cut(served, protocol, path, end)
                    expected.append((path, version, 200))
                    cuts += 1
        served.came_back()
        served.probe.rest()
        counted = counts(served, cuts)
        assert served.service.end() == 0, served.service.log.text
        said = served.service.out.text + served.service.log.text
    lines = re.findall(r'"GET (\S+\?[1-9]\d*) HTTP/(\S+)" (\d+)', said)
    assert Counter((path, version, int(status)) for path, version, status in lines) == Counter(expected)
    assert {status for path, _, status in expected} == {200, 404, 400}
    # Others were made by the helpers; the request for the metrics is logged, and not yet counted.
    assert counted == len(re.findall(r'"GET \S+ HTTP/\S+" \d+', said)) - 1
