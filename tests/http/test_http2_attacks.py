"""Clients that want to exhaust an HTTP/2 server: each is cut off, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.http2_peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    Raw,
    frame,
    frames,
    head,
)
from tests.http.service import Service
from tests.http.test_http2 import APP

pytestmark = pytest.mark.time_limit(180)

GET = head()
MEMORY_BYTES = 64 << 20
CPU_S = 10.0
MOST_STREAMS = 500_000
"""More than the kernel keeps for a server that has not looked yet."""


def usage(pid: int) -> tuple[int, float]:
    """Resident memory in bytes, CPU time in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        parts = file.read().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(parts[21]) * os.sysconf("SC_PAGE_SIZE"), (int(parts[11]) + int(parts[12])) / ticks


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Memory and CPU time of the attack are bounded, and another client is served after it."""
    with Service(
        tmp_path, "--timeout-body", "2", "--timeout-send", "2", "--timeout-header", "2", "--no-access-log", source=APP
    ) as service:
        with Peer(service.port) as peer:
            assert peer.get("/slow").body == b"slow"
        memory, cpu_s = usage(service.process.pid)
        yield service
        with Peer(service.port) as peer:
            assert peer.get("/slow").body == b"slow"
        more_memory, more_cpu_s = usage(service.process.pid)
        assert more_memory - memory < MEMORY_BYTES
        assert more_cpu_s - cpu_s < CPU_S
        assert service.end() == 0


def goaway(raw: Raw) -> int | None:
    """The code of the last GOAWAY; None if there was none."""
    codes = [struct.unpack(">I", payload[4:8])[0] for kind, _, payload in frames(raw.got) if kind == 7]
    return codes[-1] if codes else None


def flood(raw: Raw, *pieces: bytes, times: int) -> None:
    """Send a lot, and stop where the server closes."""
    raw.sock.settimeout(60)
    for _ in range(times):
        if not raw.send(*pieces):
            break
    raw.read_to_end()


def test_rapid_reset(service: Service) -> None:
    """CVE-2023-44487. A request that is reset with its own packet is not begun."""
    with Raw(service.port) as raw:
        for number in range(MOST_STREAMS):
            stream = 2 * number + 1
            request = frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
            if not raw.send(request, frame(RST_STREAM, 0, stream, struct.pack(">I", 8))):
                break
        raw.read_to_end()
        assert raw.is_closed
        assert number < MOST_STREAMS - 1
    service.log.wait_for("WARNING.*HTTP/2 connection of 127.0.0.1")
    assert service.log.text.count("HTTP/2 connection of") == 1


def test_made_you_reset(service: Service) -> None:
    """CVE-2025-8671: the server is provoked to reset, here by windows that overflow."""
    with Raw(service.port) as raw:
        raw.sock.settimeout(60)
        for number in range(MOST_STREAMS):
            stream = 2 * number + 1
            request = frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
            wrong = frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 0x7FFFFFFF))
            if not raw.send(request, wrong):
                break
        raw.read_to_end()
        assert number < MOST_STREAMS - 1


def test_continuation_flood(service: Service) -> None:
    """CVE-2024-27316."""
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_STREAM, 1, GET))
        flood(raw, frame(CONTINUATION, 0, 1, b""), times=100_000)
        assert raw.is_closed


def test_long_heads(service: Service) -> None:
    """Of a head that is too long nothing is kept; the stream gets 431, the connection goes on."""
    block = head(*((f"x-{number}", "y" * 1000) for number in range(100)))
    pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_STREAM, 1, pieces[0]))
        raw.send(*(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:-1]))
        raw.send(frame(CONTINUATION, END_HEADERS, 1, pieces[-1]))
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, head(path="/slow")))
        while b"slow" not in raw.got:
            data = raw.sock.recv(65536)
            assert data
            raw.got += data
        assert b"the head of the request is too long" in raw.got


def test_hpack_bomb(service: Service) -> None:
    """A field of 4,000 bytes in the table, and thousands of references to it by a byte each."""
    from hpack import Encoder

    encoder = Encoder()
    pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]
    first = bytes(encoder.encode([*pseudo, ("bomb", "x" * 3000)]))
    reference = bytes(encoder.encode([("bomb", "x" * 3000)]))
    assert len(reference) == 1
    block = bytes(encoder.encode(pseudo)) + reference * 15_000
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, first))
        for number in range(200):
            if not raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 3, block)):
                break
        raw.send(frame(PING, 0, 0, b"12345678"))
        raw.sock.settimeout(60)
        with contextlib.suppress(OSError):
            while data := raw.sock.recv(65536):
                raw.got += data
                if b"12345678" in raw.got:
                    break
        assert b"the head of the request is too long" in raw.got


@pytest.mark.parametrize(
    "piece",
    [
        frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 4096)),
        frame(PING, 0, 0, b"12345678"),
    ],
    ids=["settings", "ping"],
)
def test_floods_that_want_responses(service: Service, piece: bytes) -> None:
    """The responses are not read: the queue of them is bounded."""
    with Raw(service.port) as raw:
        raw.sock.settimeout(60)
        with contextlib.suppress(TimeoutError):
            for _ in range(5000):
                if not raw.send(piece * 1000):
                    break
        raw.sock.close()


def test_floods_of_nothing(service: Service) -> None:
    """Frames without a meaning: empty data, priorities, windows."""
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(path="/echo", method="POST")))
        flood(raw, frame(DATA, 0, 1, b"") * 100, times=20_000)
        assert raw.is_closed
    with Raw(service.port) as raw:
        for number in range(3000):
            if not raw.send(frame(PRIORITY, 0, 2 * number + 1, b"\0\0\0\0\x10") * 100):
                break
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 9001, GET))
        raw.read_frames(2)


def test_a_window_of_zero_for_ever(service: Service) -> None:
    """The response is given up, its stream reset, and the application told."""
    with Raw(service.port, settings=struct.pack(">HI", 4, 0)) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/stream")))
        service.out.wait_for("raised")
        raw.sock.settimeout(60)
        while not any(kind == RST_STREAM for kind, _, _ in frames(raw.got)):
            data = raw.sock.recv(65536)
            assert data
            raw.got += data


def test_one_byte_at_a_time(service: Service) -> None:
    request = frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/slow"))
    with Raw(service.port) as raw:
        for at in range(len(request)):
            raw.send(request[at : at + 1])
        while b"slow" not in raw.got:
            data = raw.sock.recv(65536)
            assert data
            raw.got += data


def test_what_never_becomes_a_request(service: Service) -> None:
    """The start of a connection and a head have a deadline, whatever arrives."""
    import socket

    with socket.create_connection(("127.0.0.1", service.port), 30) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        while sock.recv(65536):
            pass
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, 0, 1, GET[:2]))
        raw.sock.settimeout(60)
        raw.read_to_end()
        assert raw.is_closed


def test_streams_beyond_the_limit(service: Service) -> None:
    """Streams that are opened and left: 100 are served, the others refused; 10,000 end the connection."""
    with Raw(service.port) as raw:
        raw.sock.settimeout(60)
        wait = head(path="/wait")
        for number in range(200):
            raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, wait))
        while not any(kind == RST_STREAM and stream == 399 for kind, stream, _ in frames(raw.got)):
            data = raw.sock.recv(65536)
            assert data
            raw.got += data
        refused = [stream for kind, stream, payload in frames(raw.got) if kind == RST_STREAM and payload[3] == 7]
        assert refused == list(range(201, 400, 2))
        for number in range(200, MOST_STREAMS):
            if not raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, wait)):
                break
        raw.read_to_end()
        assert number < MOST_STREAMS - 1
    (service.folder / "go").touch()


@pytest.mark.parametrize("seed", range(8))
def test_random_frames(tmp_path: Path, seed: int) -> None:
    """No crash, no hang: each connection is served or closed."""
    chance = random.Random(seed)
    with Service(
        tmp_path, "--timeout-body", "1", "--timeout-send", "1", "--timeout-header", "1", source=APP
    ) as service:
        for _ in range(40):
            with Raw(service.port) as raw:
                streams = [1, 3, 5, 7, 2, 0, 9]
                for _ in range(chance.randrange(1, 60)):
                    kind = chance.choice([0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
                    length = {2: 5, 3: 4, 4: 6, 6: 8, 7: 8, 8: 4}.get(kind, chance.randrange(30))
                    payload = GET if kind in (1, 9) and chance.random() < 0.7 else chance.randbytes(length)
                    flags = chance.choice([0, 1, 4, 5, 5, 8, 0x20, chance.randrange(256)])
                    if not raw.send(frame(kind, flags, chance.choice(streams), payload)):
                        break
                raw.sock.settimeout(0.02)
                with contextlib.suppress(TimeoutError, ConnectionResetError):
                    while raw.sock.recv(65536):
                        pass
        with Peer(service.port) as peer:
            assert peer.get("/slow").body == b"slow"
        assert service.end() == 0
