"""Random clients behind a proxy: headers of the PROXY protocol cut anywhere, pipelines, and each way to leave.

When all of them are gone, the server does nothing, and SIGTERM ends it. A seed in a failure repeats its clients.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.hostile import LEAVING, LIMIT_S, Probe, close_half
from tests.http.service import Service, read_all

SEEDS = range(3)
ROUNDS, CLIENTS = 2, 40
WATCHED_S = 0.5
"""How long the server is watched after each round."""

APPS = """
import asyncio

PART = bytes(64_000)

async def app(scope, receive, send):
    way = scope["path"][1:]
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    if way == "read":
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if way == "events":
        await send({"type": "http.response.body", "body": b"data: 1", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    if way == "late":
        await asyncio.sleep(0.05)
    while way == "endless":
        await send({"type": "http.response.body", "body": PART, "more_body": True})
    await send({"type": "http.response.body", "body": PART})

def wsgi(environ, start_response):
    way = environ["PATH_INFO"][1:]
    if way == "read":
        environ["wsgi.input"].read()
    write = start_response("200 OK", [])
    if way == "events":
        return (PART for _ in range(100))
    while way == "endless":
        write(PART)
    return [PART]
"""

BASE = {"threads": ("apps:wsgi",), "green": ("apps:wsgi", "--green"), "asgi": ("apps:app",)}
WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + 22 * "A" + "=="
)


def header(dice: random.Random) -> bytes:
    """A header of the PROXY protocol."""
    ports = struct.pack("!HH", 1111, 443)
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    return dice.choice(
        [
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\n",
            b"PROXY TCP6 2001:db8::1 2001:db8::2 1111 443\r\n",
            b"PROXY UNKNOWN\r\n",
            signature + b"\x21\x11" + struct.pack("!H", 12) + bytes(8) + ports,
            signature + b"\x21\x21" + struct.pack("!H", 43) + bytes(32) + ports + b"\x04\0\x04\0\0\0\0",
            signature + b"\x20\0\0\0",
        ]
    )


def request(dice: random.Random, most_bytes: int) -> bytes:
    way = dice.choice(["whole", "late", "events", "endless", "read", "read", "websocket", "files/a", "files/missing"])
    method = dice.choice(["GET", "GET", "HEAD"])
    fields, body = "", b""
    if way == "read" and method == "GET":
        method, size = "POST", dice.choice([1, 1000, most_bytes])
        framing, body = dice.choice(
            [
                (f"Content-Length: {size}", bytes(size)),
                ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (size, bytes(size))),
            ]
        )
        expected = dice.choice(["", "Expect: 100-continue\r\n"])
        fields = f"{framing}\r\n{expected}"
    elif way == "websocket":
        method, fields = "GET", WEBSOCKET + "\r\n"
    elif dice.random() < 0.1:
        fields = "Connection: close\r\n"
    version = dice.choice(["1.1", "1.1", "1.1", "1.0"])
    return f"{method} /{way} HTTP/{version}\r\nHost: localhost\r\n{fields}\r\n".encode() + body


def said(dice: random.Random) -> bytes:
    """All that a client sends."""
    data = header(dice)
    if dice.random() < 0.2:
        return data[: dice.randrange(len(data) + 1)]
    # If more is sent behind a request than the buffers take, the end of the client waits in its own system.
    data += request(dice, 200_000) + b"".join(request(dice, 2000) for _ in range(dice.choice([0, 1, 1, 2, 60])))
    if dice.random() < 0.3:
        data = data[: dice.randrange(len(data) + 1)]
    if dice.random() < 0.1:
        at = dice.randrange(len(data) + 1)
        data = data[:at] + dice.randbytes(3) + data[at:]
    return data


def reset_later(client: socket.socket) -> None:
    close_half(client)
    time.sleep(0.01)
    LEAVING["reset"](client)


def read_and_close(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.recv(100_000)
    client.close()


LEAVES: list[Callable[[socket.socket], None]] = [
    *LEAVING.values(),
    reset_later,
    read_and_close,
    close_half,
    lambda _: None,
]
"""The last two stay until the end of the round."""


@contextlib.contextmanager
def clients(port: int, dice: random.Random) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT_S))
            data, leave = said(dice), dice.choice(LEAVES)
            client.settimeout(0.2)  # the server need not read all of it
            # The server ends many of them at once.
            with contextlib.suppress(OSError):
                while data:
                    at = dice.choice([1, 10, 100, 1 << 20])
                    client.sendall(data[:at])
                    data = data[at:] if at > 1 or dice.random() < 0.5 else b""
                leave(client)
        yield


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def is_at_rest(pid: int) -> bool:
    before, begun_s = cpu_ticks(pid), time.monotonic()
    time.sleep(WATCHED_S)
    used_s = (cpu_ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
    return used_s < (time.monotonic() - begun_s) / 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", BASE)
def test_random_clients(mode: str, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_bytes(bytes(300_000))
    app, *options = BASE[mode]
    options += ["--static", f"/files={tmp_path / 'files'}", "--proxy-protocol", "--lifespan", "off", "--no-access-log"]
    options += [
        "--timeout-header",
        "0.4",
        "--timeout-body",
        "0.4",
        "--timeout-send",
        "0.4",
        "--timeout-keep-alive",
        "0.4",
    ]
    with Service(tmp_path, *options, app=app, source=APPS) as service:
        probe = Probe(service.process.pid)
        for way in ("files/a", "whole"):
            # What the server opens once.
            client = socket.create_connection(("127.0.0.1", service.port), LIMIT_S)
            client.sendall(b"PROXY UNKNOWN\r\nGET /%s HTTP/1.0\r\n\r\n" % way.encode())
            assert read_all(client).startswith(b"HTTP/1.1 200")
        probe.rest()
        base = probe.descriptors()
        for number in range(ROUNDS):
            with clients(service.port, dice):
                pass
            end_s = time.monotonic() + LIMIT_S
            while probe.descriptors() > base:
                assert time.monotonic() < end_s, (number, probe.descriptors(), base)
                time.sleep(0.02)
            probe.rest()
            # What was left to do may have waited for the processor until now.
            assert any(is_at_rest(service.process.pid) for _ in range(20)), number
        assert service.end() == 0, service.log.text
        assert "Traceback" not in service.log.text, service.log.text
