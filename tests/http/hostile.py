"""Clients that misbehave, a server process with each way to respond, and a probe of what they cost it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.http.service import Service, read_all
from tests.tls.authority import HOST, Authority

LIMIT_S = 60.0
SHORT, LONG = 100_000, 6_000_000
"""Bytes of a body: LONG does not fit into the kernel's buffers."""
TIMES_S = ("--timeout-body", "0.4", "--timeout-send", "0.4", "--timeout-header", "0.4", "--timeout-keep-alive", "0.4")
"""All deadlines of a connection, for clients that fall silent."""

APPS = f"""
import asyncio, os
SHORT, LONG = {SHORT}, {LONG}
BODIES = {{"short": bytes(SHORT), "long": bytes(LONG)}}
PART = bytes(64_000)

async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await send({{"type": "websocket.accept"}})
        while True:
            await send({{"type": "websocket.send", "bytes": PART}})
    _, way, size = scope["path"].split("/")
    if way == "read":
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
    start = {{"type": "http.response.start", "status": 200}}
    if way == "streamed":
        await send(start)
        for _ in range(0, len(BODIES[size]), len(PART)):
            await send({{"type": "http.response.body", "body": PART, "more_body": True}})
        await send({{"type": "http.response.body"}})
        return
    if way == "events":
        await send(start)
        await send({{"type": "http.response.body", "body": b"data: 1", "more_body": True}})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    if way == "endless":
        await send(start)
        while True:
            await send({{"type": "http.response.body", "body": PART, "more_body": True}})
            await asyncio.sleep(0.01)
    start["headers"] = [(b"content-length", b"%d" % len(BODIES[size]))]
    await send(start)
    if way == "pathsend":
        await send({{"type": "http.response.pathsend", "path": os.path.abspath(f"files/{{size}}.bin")}})
    else:
        await send({{"type": "http.response.body", "body": BODIES[size]}})

def wsgi(environ, start_response):
    _, way, size = environ["PATH_INFO"].split("/")
    if way == "read":
        environ["wsgi.input"].read()
    write = start_response("200 OK", [("Content-Length", str(len(BODIES[size])))])
    if way == "file_wrapper":
        return environ["wsgi.file_wrapper"](open(f"files/{{size}}.bin", "rb"))
    if way in ("list", "read"):
        return [BODIES[size]]
    body = memoryview(BODIES[size])
    parts = (bytes(body[at : at + len(PART)]) for at in range(0, len(body), len(PART)))
    if way == "iterator":
        return parts
    for part in parts:
        write(part)
    return []
"""

WAYS = {
    "asgi": ("whole", "streamed", "pathsend", "websocket", "static", "bodyless", "own"),
    "threads": ("list", "iterator", "write", "file_wrapper", "static", "bodyless", "own"),
    "green": ("list", "iterator", "write", "file_wrapper", "static", "bodyless", "own"),
}
"""The ways to respond, by what runs the application."""
TRANSPORTS: dict[str, tuple[str, ...]] = {
    # With metrics, static files are answered by other code.
    "plain": ("--metrics", "/metrics"),
    "rustls": (),
    "openssl": ("--ssl-ciphers", "ECDHE+AESGCM", "--metrics", "/metrics"),
    "unix": (),
}
HANDSHAKE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + 22 * "A" + "=="
)


def request(way: str, size: str, method: str = "GET", *fields: str) -> bytes:
    """A request that is answered in this way."""
    if way == "own":
        return b"GET / HTTP/1.1\r\n\r\n"  # without Host: 400
    path = {"static": f"/files/{size}.bin", "bodyless": "/files/missing"}.get(way, f"/{way}/{size}")
    more = [HANDSHAKE] if way == "websocket" else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {HOST}", *more, *fields, "", ""]).encode()


# What a look at a thread raises that has ended; the second, if it ended behind open(2).
ENDED = (FileNotFoundError, ProcessLookupError)


class Probe(NamedTuple):
    """What a process uses."""

    pid: int

    def memory_bytes(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_ns(self) -> int:
        total = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(*ENDED):
                total += int(Path(f"/proc/{self.pid}/task/{thread}/schedstat").read_text().split()[0])
        return total

    def rest(self) -> None:
        """Wait until it does nothing but look at its deadlines."""
        end_s = time.monotonic() + LIMIT_S
        before, quiet = self.cpu_ns(), 0
        while quiet < 3 and time.monotonic() < end_s:
            time.sleep(0.02)
            now = self.cpu_ns()
            quiet = quiet + 1 if now - before < 2_000_000 and not self.is_runnable() else 0
            before = now

    def is_runnable(self) -> bool:
        """Whether a thread runs, or would if the machine were not busy with others."""
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(*ENDED):
                if Path(f"/proc/{self.pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
        return False


class Site:
    """A running `oneloop serve`, over one of the transports."""

    def __init__(self, mode: str, transport: str, authority: Authority, folder: Path, *options: str) -> None:
        self.mode, self.transport, self.ways = mode, transport, WAYS[mode]
        self._contexts = {name: authority.client_context() for name in ("http/1.1", "h2")}
        for name, context in self._contexts.items():
            context.set_alpn_protocols([name])
        self._uds = str(folder / "socket")
        (folder / "files").mkdir()
        for name, size in (("short", SHORT), ("long", LONG)):
            (folder / "files" / f"{name}.bin").write_bytes(bytes(size))
        certificate = ("--ssl-certfile", str(authority.server))
        self._is_tls = transport in ("rustls", "openssl")
        arguments = (
            *(("--uds", self._uds) if transport == "unix" else ()),
            *(certificate if self._is_tls else ()),
            *TRANSPORTS[transport],
            *(("--green",) if mode == "green" else ()),
            *("--no-access-log", "--static", f"/files={folder / 'files'}", "--lifespan", "off", *options),
            # So that responses without a body fill the buffers, too.
            *("--header", "X-Long: " + 1000 * "x"),
        )
        app = "apps:app" if mode == "asgi" else "apps:wsgi"
        port = None if transport == "unix" else 0
        self.service = Service(folder, *arguments, app=app, source=APPS, port=port)
        self.probe = Probe(self.service.process.pid)
        self.served()
        self.probe.rest()
        self.base = self.probe.descriptors()

    def connect(self, buffer_bytes: int = 16_384, protocol: str = "http/1.1") -> socket.socket:
        """A client that takes little into its kernel's buffers."""
        kind = socket.AF_UNIX if self.transport == "unix" else socket.AF_INET
        made = socket.socket(kind)
        made.settimeout(LIMIT_S)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            made.setsockopt(socket.SOL_SOCKET, option, buffer_bytes)
        made.connect(self._uds if self.transport == "unix" else ("127.0.0.1", self.service.port))
        return self._contexts[protocol].wrap_socket(made, server_hostname=HOST) if self._is_tls else made

    def ask(self, *requests: bytes) -> bytes:
        client = self.connect(1 << 20)
        client.sendall(b"".join(requests))
        return read_all(client)

    def served(self, *ways: str) -> None:
        """Another client is served in these ways, or in all."""
        for way in ways or self.ways:
            if way not in ("own", "websocket"):
                response = self.ask(request(way, "short", "GET", "Connection: close"))
                status, size = (b"404", 0) if way == "bodyless" else (b"200", SHORT)
                assert response.startswith(b"HTTP/1.1 " + status), (way, response[:100])
                assert len(response) >= size, (way, len(response))

    def came_back(self) -> None:
        """No descriptor of a client is left, and others are served."""
        end_s = time.monotonic() + LIMIT_S
        while self.probe.descriptors() > self.base:
            assert time.monotonic() < end_s, f"{self.probe.descriptors()} descriptors, {self.base} at first"
            time.sleep(0.02)
        self.served()

    def answers(self) -> str:
        """The metrics, for those who compare them with what was sent."""
        return self.ask(f"GET /metrics HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()).decode()


def leave_by_fin(client: socket.socket) -> None:
    """The kernel takes what it is sent until then: nothing is unread, so that no reset is sent."""
    client.shutdown(socket.SHUT_WR)
    client.close()


def leave_by_reset(client: socket.socket) -> None:
    if client.family != socket.AF_UNIX:  # There, what was not read makes the end a reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def close_half(client: socket.socket) -> None:
    """It sends nothing more, and reads nothing."""
    client.shutdown(socket.SHUT_WR)


LEAVING: dict[str, Callable[[socket.socket], None]] = {"fin": leave_by_fin, "reset": leave_by_reset}


def send_while_taken(client: socket.socket, data: bytes, most_bytes: int, probe: Probe) -> int:
    """Send it again and again without reading, until the server takes no more. Returns the bytes that it took."""
    client.setblocking(False)
    sent = at = 0
    while sent < most_bytes:
        try:
            count = client.send(data[at:])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            probe.rest()
            try:
                count = client.send(data[at:])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError:
                break
        except OSError:
            break  # It has ended the connection.
        sent += count
        at = (at + count) % len(data)
    probe.rest()
    return sent


@contextlib.contextmanager
def site(mode: str, transport: str, authority: Authority, *options: str) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="site"))
    try:
        made = Site(mode, transport, authority, folder, *options)
        with made.service:
            yield made
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def ending_well(mode: str, transport: str, authority: Authority, *options: str) -> Iterator[Site]:
    """One that ends with status 0."""
    with site(mode, transport, authority, *options) as made:
        yield made
        assert made.service.end() == 0, made.service.log.text
