"""What the soak does: one round is a few hundred jobs at once, each of which checks every byte that it gets back.

Streams, TLS, datagrams, child processes, timers, executors, cancellations; with oneloop also files, green threads, HTTP
(ASGI, WSGI, a WebSocket, our client) and a server with two workers that are replaced.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import oneloop
import oneloop.http
from oneloop import files, green
from oneloop.green import socket as green_socket
from tests.certificates import client_context, server_context
from tests.protocols import Echo

BODY = os.urandom(200_000)
KEPT_S = 600
"""A connection that a server ends while a request is on its way to it is an error to the client: not here."""
CUT_OFF = (OSError, EOFError, ssl.SSLError, oneloop.http.TransportError, oneloop.http.WebSocketDisconnect)
"""What a job may see if a system call has failed on one of the two sides of a connection."""

PREFORKED = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


async def _asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Sends back what it receives."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body[:1000], "more_body": True})
    await send({"type": "http.response.body", "body": body[1000:]})


def _wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


class EchoDatagrams(asyncio.DatagramProtocol):
    transport: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data, addr)


class Answers(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.answers.put_nowait(data)


class Load:
    """One round of everything against servers that live as long as the run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.done: dict[str, int] = {}
        self.rounds = 0
        self.damaged: list[tuple[str, BaseException]] = []
        """Jobs that have seen an exception since the last look."""

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.plain = await loop.create_server(Echo, "127.0.0.1", 0)
        self.tls = await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context())
        self.client_tls = client_context()
        self.udp, _ = await loop.create_datagram_endpoint(EchoDatagrams, local_addr=("127.0.0.1", 0))

    async def stop(self) -> None:
        for server in (self.plain, self.tls):
            server.close()
            await server.wait_closed()
        self.udp.close()
        await asyncio.sleep(0.01)

    async def stream(self, *, tls: bool) -> None:
        server = self.tls if tls else self.plain
        options: dict[str, Any] = {"ssl": self.client_tls} if tls else {}
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), **options)
        try:
            data = os.urandom(self.random.choice([1, 1000, 20_000, 300_000]))
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
        finally:
            writer.close()
            await writer.wait_closed()

    async def aborted(self) -> None:
        _, writer = await asyncio.open_connection(*self.plain.sockets[0].getsockname())
        writer.write(bytes(1_000_000))
        await asyncio.sleep(0)
        writer.transport.abort()

    async def datagrams(self) -> None:
        transport, protocol = await self.loop.create_datagram_endpoint(
            Answers, remote_addr=self.udp.get_extra_info("sockname")
        )
        try:
            # Before Python 3.13 asyncio does not send empty datagrams.
            for size in (0, 1, 1000, 8000) if sys.version_info >= (3, 13) else (1, 1000, 8000):
                data = os.urandom(size)
                answer = None
                while answer != data:
                    assert answer is None or len(answer) < size, "another datagram than was sent"
                    transport.sendto(data)
                    try:
                        async with asyncio.timeout(2):
                            answer = await protocol.answers.get()
                    except TimeoutError:
                        if transport.is_closing():
                            raise ConnectionError("the endpoint was closed") from None
        finally:
            transport.close()

    async def process(self) -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = await process.communicate(b"x" * 100_000)
        if out != b"x" * 100_000:
            assert not out.strip(b"x")
            raise EOFError(f"{len(out)} bytes of a child process")

    async def timers(self) -> None:
        handles = [self.loop.call_later(self.random.random(), int) for _ in range(2000)]
        await asyncio.sleep(0.002)
        for handle in handles:
            handle.cancel()

    async def cancelled(self) -> None:
        task = asyncio.ensure_future(self.stream(tls=self.random.random() < 0.3))
        for _ in range(self.random.randrange(25)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()

    async def executor(self) -> None:
        assert await self.loop.run_in_executor(None, sum, range(1000)) == 499_500

    def jobs(self) -> list[tuple[Any, dict[str, Any], int]]:
        """Each kind of job, its arguments, and how many of them are in a round."""
        return [
            (self.stream, {"tls": False}, 40),
            (self.stream, {"tls": True}, 10),
            (self.aborted, {}, 10),
            (self.datagrams, {}, 10),
            (self.process, {}, 4),
            (self.timers, {}, 4),
            (self.cancelled, {}, 20),
            (self.executor, {}, 10),
        ]

    async def _do(self, job: Any, options: dict[str, Any]) -> None:
        try:
            await job(**options)
        except CUT_OFF as error:
            self.damaged.append((job.__name__, error.with_traceback(None)))

    async def round(self) -> None:
        """All jobs at once; ends when all have ended."""
        tasks = []
        for job, options, count in self.jobs():
            tasks += [asyncio.ensure_future(self._do(job, options)) for _ in range(count)]
            self.done[job.__name__] = self.done.get(job.__name__, 0) + count
        self.rounds += 1
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.05)


class Rooms(Load):
    """Also what only oneloop has."""

    async def start(self) -> None:
        await super().start()
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.over = asyncio.Event()
        self.sites = [await self._serve(app) for app in (_asgi, _wsgi)]
        self.client = oneloop.http.AsyncClient(timeout=20)
        Path(self.folder.name, "preforked.py").write_text(PREFORKED)
        # A file, because a pipe would be read by this loop, whose reads fail.
        self.log = Path(self.folder.name, "log")
        log = self.log.open("wb")
        self.preforked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "oneloop", "serve", "preforked:app", "--app-dir", self.folder.name, "--port", "0"),
            *("--workers", "2", "--no-access-log", "--timeout-keep-alive", str(KEPT_S)),
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "ONELOOP_FAULTS": ""},
        )
        log.close()
        self.place = await self._said(rb"http://127.0.0.1:\d+")
        self.reloads = 0

    async def _serve(self, app: Any) -> str:
        places: asyncio.Queue[str] = asyncio.Queue()
        self.serving = getattr(self, "serving", [])
        serving = oneloop.http.serve(
            app, port=0, access_log=False, stop=self.over, lifespan="off", timeout_keep_alive=KEPT_S,
            on_ready=lambda at: places.put_nowait(at[0]),
        )  # fmt: skip
        self.serving.append(asyncio.ensure_future(serving))
        return (await places.get()).rstrip("/")

    async def _said(self, pattern: bytes) -> str:
        while not (found := re.search(pattern, self.log.read_bytes())):
            if self.preforked.returncode is not None:
                raise EOFError("the server with workers does not start")
            await asyncio.sleep(0.05)
        return found.group().decode()

    async def stop(self) -> None:
        self.over.set()
        await self.client.aclose()
        await asyncio.gather(*self.serving)
        self.preforked.terminate()
        status = await self.preforked.wait()
        said = self.log.read_bytes()
        assert status in (0, -signal.SIGTERM), status
        assert not re.search(rb"Traceback|panicked", said), said[-2000:]
        self.folder.cleanup()
        await super().stop()

    async def request(self, *, site: str = "") -> None:
        site = site or self.random.choice(self.sites)
        data = BODY[: self.random.choice([1, 1000, 20_000, 200_000])]
        response = await self.client.post(f"{site}/echo", content=data)
        assert response.status_code == 200, response
        assert response.content == data

    async def preforked_request(self) -> None:
        await self.request(site=self.place)

    async def websocket(self) -> None:
        async with self.client.websocket(self.sites[0].replace("http", "ws")) as socket:
            for size in (1, 1000, 70_000):
                await socket.send(BODY[:size])
                assert await socket.receive() == BODY[:size]

    async def file(self) -> None:
        name = Path(self.folder.name, f"{self.random.random()}")
        try:
            await files.write_file(name, BODY[:50_000])
            await files.write_file(name, BODY[:10_000], atomic=True)
            async with files.open(name, "ab") as file:
                await file.write(BODY[10_000:150_000])
                await file.flush()
            assert await files.read_file(name) == BODY[:150_000]
        finally:
            name.unlink(missing_ok=True)

    async def green(self) -> None:
        assert isinstance(self.loop, oneloop.Loop)
        await self.loop.run_green(self._green, self.random.choice([1, 1000, 100_000]))

    def _green(self, size: int) -> None:
        """A pair of green threads with sockets: one sends back what comes."""
        near, far = green_socket.socketpair()

        def echo() -> None:
            with far:
                while data := far.recv(8192):
                    far.sendall(data)

        with near:
            echoing = green.spawn(echo)
            sending = green.spawn(near.sendall, BODY[:size])
            received = b""
            while len(received) < size:
                data = near.recv(8192)
                if not data:
                    break
                received += data
            near.close()
        for thread in (sending, echoing):
            thread.join()
            if thread.exception is not None:
                raise thread.exception
        assert received == BODY[:size]

    def jobs(self) -> list[tuple[Any, dict[str, Any], int]]:
        return [
            *super().jobs(),
            (self.request, {}, 40),
            (self.preforked_request, {}, 10),
            (self.websocket, {}, 5),
            (self.file, {}, 10),
            (self.green, {}, 10),
        ]

    async def round(self) -> None:
        await super().round()
        # Idle connections are not a leak: the samples are taken without them.
        await self.client.aclose()
        self.client = oneloop.http.AsyncClient(timeout=20)
        await asyncio.sleep(0.01)
        if self.rounds % 10 == 0:
            self.preforked.send_signal(signal.SIGHUP)
            self.reloads += 1
