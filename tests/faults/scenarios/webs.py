"""An HTTP server (ASGI, WSGI, a static file, WebSocket) and our client, each with plain code as its peer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import http.client
import http.server
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oneloop
import oneloop.http
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S, Peer, receive_all

BODY = os.urandom(100_000)
PLACES = ("/small", "/large", "/echo", "/small")


async def echo_app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        return
    body = BODY if scope["path"] == "/large" else b"small"
    if scope["path"] == "/echo":
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body[:1000], "more_body": True})
    await send({"type": "http.response.body", "body": body[1000:]})


def _wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = BODY if environ["PATH_INFO"] == "/large" else b"small"
    if environ["PATH_INFO"] == "/echo":
        body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body[:1000], body[1000:]]


def _ask(evidence: Evidence, port: int, path: str, sent: bytes, expected: bytes) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        client.request("POST" if sent else "GET", path, sent or None)
        answer = client.getresponse()
        body = answer.read()
        if answer.status == 200 and body != expected:
            raise ViolationError(f"{path}: other bytes than the application's")
        if answer.status != 200:
            evidence.damaged.append(f"{path}: {answer.status}")
            evidence.reports.append(f"{path}: {answer.status}")
    except TimeoutError:
        raise ViolationError(f"{path}: no answer") from None
    except (OSError, http.client.HTTPException) as error:
        # To the client, an answer that is cut off is an error that it sees.
        evidence.damaged.append(f"{path}: {error!r}")
        evidence.reports.append(f"{path} was cut off")
    finally:
        client.close()


def _peers(evidence: Evidence, port: int) -> None:
    for path in PLACES:
        sent = BODY if path == "/echo" else b""
        _ask(evidence, port, path, sent, b"small" if path == "/small" else BODY)


def _file_peers(evidence: Evidence, port: int) -> None:
    for path in ("/large", "/small"):
        _ask(evidence, port, path, b"", b"small" if path == "/small" else BODY)


def _frame(payload: bytes) -> bytes:
    """A masked binary frame, with zeros as the mask."""
    return b"\x82" + (bytes([0x80 | 126]) + len(payload).to_bytes(2)) + bytes(4) + payload


def _websocket_peer(evidence: Evidence, port: int) -> None:
    key = base64.b64encode(bytes(16)).decode()
    request = (
        f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    )
    for number in range(2):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock:
            try:
                sock.sendall(request.encode())
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    part, end = receive_all(sock, 1)
                    if end:
                        raise ConnectionError(end)
                    head += part
                for size in (200, 50_000):
                    sock.sendall(_frame(BODY[:size]))
                    answer, end = receive_all(sock, size + 4)
                    if not (b"\x82" + bytes([126]) + size.to_bytes(2) + BODY[:size]).startswith(answer) and not end:
                        raise ViolationError("another message than was sent")
                    if end:
                        raise ConnectionError(end)
                sock.sendall(b"\x88\x80" + bytes(4))
                receive_all(sock, 1 << 16)
            except OSError as error:
                evidence.damaged.append(f"websocket {number}: {error!r}")
                evidence.reports.append(f"websocket {number} was cut off")


async def _serve(evidence: Evidence, app: object, ask: Any, **options: Any) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    stop, ready = asyncio.Event(), asyncio.Event()
    places: list[str] = []

    def on_ready(addresses: list[str]) -> None:
        places.extend(addresses)
        ready.set()

    serving = asyncio.create_task(
        oneloop.http.serve(
            app, port=0, access_log=False, stop=stop, on_ready=on_ready, timeout_graceful_shutdown=1, **options
        )
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if ready.is_set():
        port = int(places[0].rpartition(":")[2].rstrip("/"))
        done = asyncio.Event()
        peer = Peer(functools.partial(ask, evidence, port), lambda: loop.call_soon_threadsafe(done.set))
        peer.start()
        try:
            await done.wait()
        finally:
            peer.finish()
            stop.set()
    await serving


def _run_server(app: Any, ask: Any, options: dict[str, Any], evidence: Evidence) -> None:
    oneloop.run(_serve(evidence, app, ask, **options))


def _static(evidence: Evidence) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "small").write_bytes(b"small")
        Path(folder, "large").write_bytes(BODY)
        oneloop.run(_serve(evidence, echo_app, _file_peers, static=[("/", folder)]))


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        body = BODY if self.path == "/large" else b"small"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Site(http.server.ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, *_: object) -> None:
        pass  # the client says what it has seen


@contextlib.contextmanager
def served() -> Iterator[int]:
    """The port of a site that runs in a thread."""
    with Site(("127.0.0.1", 0), Answering) as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site.server_port
        finally:
            site.shutdown()
            thread.join()


async def _requests(evidence: Evidence, port: int) -> None:
    asyncio.get_running_loop().set_exception_handler(evidence.handler)
    async with oneloop.http.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as client:
        for path in PLACES:
            try:
                if path == "/echo":
                    response = await client.post(path, content=BODY)
                else:
                    response = await client.get(path)
            except (OSError, oneloop.http.TransportError) as error:
                if isinstance(error, oneloop.http.TimeoutException):
                    raise ViolationError(f"{path}: no answer") from error
                evidence.errors.append(error)
                evidence.damaged.append(path)
                continue
            if response.content != (b"small" if path == "/small" else BODY):
                raise ViolationError(f"{path}: other bytes than the server's")


def _client(evidence: Evidence) -> None:
    with served() as port:
        oneloop.run(_requests(evidence, port))


SCENARIOS = (
    Scenario("http asgi", functools.partial(_run_server, echo_app, _peers, {})),
    Scenario("http wsgi", functools.partial(_run_server, _wsgi, _peers, {})),
    Scenario("http websocket", functools.partial(_run_server, echo_app, _websocket_peer, {})),
    Scenario("http static", _static),
    Scenario("http client", _client, (oneloop.http.TransportError,)),
)
