"""What only shows at certain moments of a WSGI request: after its response, without its client, at its server's end."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import oneloop
from tests.conftest import settle
from tests.http.frames import handshake
from tests.http.site import GET, Site, serving
from tests.programs import ROOT

StartResponse = Callable[..., Any]
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"


@asynccontextmanager
async def threaded(app: Callable[[dict[str, Any], StartResponse], Any], **options: Any) -> AsyncIterator[Site]:
    """A server whose threads have ended at the end."""
    threads: list[threading.Thread] = []
    async with serving(cast("Any", app), interface="wsgi", **options) as site:
        try:
            yield site
        finally:
            threads = site.http.end_threads()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()


def started(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


async def test_the_body_is_not_waited_for_after_the_response() -> None:
    told: list[type[BaseException]] = []

    class Answer:
        def __init__(self, body: io.BufferedReader) -> None:
            self.body = body

        def __iter__(self) -> Iterator[bytes]:
            yield b"early"

        def close(self) -> None:
            try:
                self.body.read()
            except OSError as error:
                told.append(type(error))

    def app(environ: dict[str, Any], start_response: StartResponse) -> Answer:
        start_response("200 OK", [])
        return Answer(environ["wsgi.input"])

    async with threaded(app) as site:
        wire = await site.connect()
        # The application is called without all of it since so much is there.
        await wire.send(POST + b"Content-Length: 200000\r\n\r\n" + bytes(100_000))
        assert (await wire.answer()).body == b"early"
        await wire.send(b"a")
        while not told:
            await asyncio.sleep(0.001)
    assert issubclass(told[0], OSError)


async def test_an_applications_own_error_after_its_client_has_gone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    has_gone = threading.Event()

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        has_gone.wait(60)
        raise FileNotFoundError("a file of the application's")

    caplog.set_level(logging.ERROR, "oneloop.error")
    async with threaded(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        while not site.http.requests:
            await asyncio.sleep(0)
        wire.reset()
        while site.http.connections:
            await asyncio.sleep(0)
        has_gone.set()
        await asyncio.wait_for(site.until_idle(), 20)
    assert "a file of the application's" in caplog.text


async def test_an_upgrade_to_a_websocket_is_left_out() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["HTTP_UPGRADE"].encode()]

    async with threaded(app) as site:
        response = await site.ask(handshake())
        assert (response.status, response.body) == (200, b"websocket")


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/app", "/app "), ("/app/x", "/app /x"), ("/application", "/app /application"), ("/x", "/app /x")],
)
async def test_the_script_name_is_a_whole_name(path: str, shown: str) -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        return [f"{environ['SCRIPT_NAME']} {environ['PATH_INFO']}".encode()]

    async with threaded(app, root_path="/app") as site:
        assert (await site.ask(GET.replace(b"/ ", path.encode() + b" "))).body == shown.encode()


async def test_the_log_is_told_how_much_of_a_file_was_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(300_000))
    told: list[tuple[Any, ...]] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"]((tmp_path / "file").open("rb"))

    async with threaded(app, on_response=lambda *given: told.append(given)) as site:
        assert len((await site.ask()).body) == 300_000
        await site.until_empty()
    assert [given[5] for given in told] == [300_000]


async def test_a_client_that_takes_nothing_holds_up_its_thread_alone() -> None:
    """The parts do not gather in memory."""
    parts = 0

    def endless() -> Iterable[bytes]:
        nonlocal parts
        for _ in range(2000):
            parts += 1
            yield bytes(60_000)

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return endless() if environ["PATH_INFO"] == "/" else [b"other"]

    async with threaded(app) as site:
        wire = await site.connect(limit=1000)
        transport: Any = wire.writer.transport
        transport.pause_reading()
        await wire.send(GET)
        # Time enough for all of it: each of the others is served by threads, too.
        for _ in range(300):
            assert (await site.ask(GET.replace(b"/ ", b"/other "))).body == b"other"
        assert 0 < parts < 1000
        wire.reset()


async def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The next request tries again; with another thread, requests wait for that."""
    goes_on = threading.Event()
    start = threading.Thread.start
    failing = False

    def may_start(thread: threading.Thread) -> None:
        if failing and thread.name.startswith("oneloop-wsgi"):
            raise RuntimeError("can't start new thread")
        start(thread)

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/wait":
            goes_on.wait(60)
        start_response("200 OK", [])
        return [b"served"]

    monkeypatch.setattr(threading.Thread, "start", may_start)
    async with threaded(app) as site:
        first = await site.connect()
        await first.send(GET.replace(b"/ ", b"/wait "))
        while len(started("oneloop-wsgi")) < 1:
            await asyncio.sleep(0)
        failing = True
        second = await site.connect()
        await second.send(GET)
        while site.http.requests < 2:
            await asyncio.sleep(0)
        await settle(20)
        failing = False
        third = await site.connect()
        assert (await third.ask()).body == b"served"
        assert (await second.answer()).body == b"served"
        goes_on.set()
        assert (await first.answer()).body == b"served"
    assert caplog.text == ""


def test_the_threads_of_a_server_that_is_dropped_end() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        return [b"served"]

    async def main() -> list[threading.Thread]:
        async with serving(cast("Any", app), interface="wsgi") as site:
            assert (await site.ask()).body == b"served"
        return started("oneloop-wsgi")

    [thread] = oneloop.run(main())
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


KEPT = """
import asyncio, sys
import oneloop
from oneloop import _native

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"served"]

async def main():
    global http
    loop = asyncio.get_running_loop()
    http = _native.HttpServer(loop, app, interface="wsgi")
    server = await loop.create_server(http, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
    assert (await reader.read()).endswith(b"served")
    writer.close()
    server.close()

oneloop.run(main())
print("ended")
"""


def test_idle_threads_do_not_hold_up_the_interpreters_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", KEPT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ended\n", "")


BUSY = """
import asyncio, socket, threading, time
import oneloop
from oneloop import _native

begun = threading.Event()

def app(environ, start_response):
    begun.set()
    while True:
        time.sleep(0.0002)

async def main():
    global client
    loop = asyncio.get_running_loop()
    http = _native.HttpServer(loop, app, interface="wsgi")
    server = await loop.create_server(http, "127.0.0.1", 0)
    client = socket.create_connection(server.sockets[0].getsockname())
    client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    await asyncio.sleep(3600)

threading.Thread(target=oneloop.run, args=(main(),), daemon=True).start()
begun.wait()
print("ended")
"""


def test_busy_threads_of_a_daemon_end_with_the_interpreter() -> None:
    """The threads of a server whose loop is in a daemon thread are daemons, too."""
    command = [sys.executable, "-c", BUSY]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ended\n", "")


CLOSED = """
import asyncio, socket, threading
import oneloop
from oneloop import _native

reads = threading.Event()
client = socket.socket()

def app(environ, start_response):
    environ["wsgi.input"].read(100_000)
    reads.set()
    try:
        environ["wsgi.input"].read()
    except OSError as error:
        print(error)
    start_response("200 OK", [])
    return []

async def main():
    global http
    loop = asyncio.get_running_loop()
    http = _native.HttpServer(loop, app, interface="wsgi")
    server = await loop.create_server(http, "127.0.0.1", 0)
    client.connect(server.sockets[0].getsockname())
    client.sendall(b"POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 200000\\r\\n\\r\\n" + bytes(100_000))
    while not reads.is_set():
        await asyncio.sleep(0.001)
    server.close()

oneloop.run(main())
"""


def test_a_thread_does_not_wait_for_a_loop_that_was_closed() -> None:
    command = [sys.executable, "-c", CLOSED]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the server has stopped\n", "")
