"""`oneloop.http.serve` on a loop of the program's own, and `run` in a program."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from test.test_asyncio import utils as cpython

import oneloop
from oneloop.http import LoadError, OptionError, serve, service
from oneloop.http import server as http_server
from oneloop.http.application import load
from oneloop.http.listeners import open_listeners
from oneloop.http.options import Options
from oneloop.http.server import Ending, Server
from oneloop.http.static import settings
from tests.conftest import settle
from tests.http.service import ROOT, Service


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        scope["state"]["began"] = "yes"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        ended.append("lifespan")
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/forever":
        waiting.set()
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": scope["state"]["began"].encode()})


ended: list[str] = []
waiting = threading.Event()


class Served:
    """An application that is served on the running loop."""

    def __init__(self, given_app: Any = app, **options: Any) -> None:
        self.stop = asyncio.Event()
        self._ready: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        ended.clear()
        options.setdefault("access_log", False)
        serving = serve(given_app, port=0, stop=self.stop, on_ready=self._ready.set_result, **options)
        self.task = asyncio.get_running_loop().create_task(serving)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        futures: list[asyncio.Future[Any]] = [self._ready, self.task]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        [shown] = self._ready.result()
        return await asyncio.open_connection("127.0.0.1", int(shown.rpartition(":")[2]))

    async def get(self, path: str = "/") -> bytes:
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        response = await reader.read()
        writer.close()
        return response


def run(main: Any) -> None:
    oneloop.run(asyncio.wait_for(main, 60))


def test_it_ends_when_it_is_told_to() -> None:
    async def main() -> None:
        served = Served()
        assert (await served.get()).endswith(b"yes")
        served.stop.set()
        await served.task
        assert ended == ["lifespan"]

    run(main())


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("ticks", [None, 0, 1, 2, 4, 100], ids="since told to stop: {}".format)
def test_cancelled_it_ends_at_once(ticks: int | None, cancels: int) -> None:
    """Also while it waits for the last requests."""

    async def main() -> None:
        others = asyncio.all_tasks()
        served = Served()
        waiting.clear()
        asking = asyncio.ensure_future(served.get("/forever"))
        while not waiting.is_set():
            await asyncio.sleep(0)
        if ticks is not None:
            served.stop.set()
            await settle(ticks)
        for _ in range(cancels):
            served.task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await served.task
        assert b"200 OK" not in await asking
        assert asyncio.all_tasks() == others

    run(main())


def test_a_failure_after_it_was_cancelled_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("oneloop"), "propagate", True)

    at_the_end = asyncio.Event()

    async def fail(_: Server) -> None:
        at_the_end.set()
        await settle(5)
        raise ValueError("at the end")

    monkeypatch.setattr(Server, "_end_lifespan", fail)

    async def main() -> None:
        served = Served()
        assert (await served.get()).endswith(b"yes")
        served.stop.set()
        await at_the_end.wait()
        served.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await served.task

    run(main())
    assert "ValueError: at the end" in caplog.text


def test_after_its_last_request_it_ends() -> None:
    async def main() -> None:
        served = Served(limit_max_requests=2)
        for _ in range(2):
            assert (await served.get()).endswith(b"yes")
        await served.task
        assert ended == ["lifespan"]

    run(main())


def test_in_a_thread_it_serves_too() -> None:
    thread = threading.Thread(target=test_it_ends_when_it_is_told_to)
    thread.start()
    thread.join()
    assert ended == ["lifespan"]


@pytest.mark.parametrize("name", ["reload", "limit_memory", "green", "env_file"])
def test_what_needs_other_processes_is_for_run(name: str, tmp_path: Path) -> None:
    value: Any = str(Path(__file__)) if name == "env_file" else 1
    with pytest.raises(OptionError, match=rf"serve\(\) does not support the option '{name}': use oneloop\.http\.run"):
        oneloop.run(serve(app, **{name: value}))
    with pytest.raises(OptionError, match=r"workers=2 is not possible: use oneloop\.http\.run"):
        oneloop.run(serve(app, workers=2))


def test_what_cannot_be_served() -> None:
    with pytest.raises(LoadError, match="5 is of the type int, not an application: pass an ASGI or WSGI"):
        oneloop.run(serve(5))
    with pytest.raises(
        TypeError, match=r"needs a oneloop event loop, not _UnixSelectorEventLoop: .* with oneloop\.run"
    ):
        asyncio.run(serve(app))


PROGRAM = """
import oneloop, os
async def app(scope, receive, send):
    body = str(os.getpid()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
oneloop.http.run(app, port=0, workers=%s)
print("after")
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_run_in_a_program(tmp_path: Path, workers: int) -> None:
    with Service(tmp_path, app=PROGRAM % workers, port=None, command=("-c",)) as service:
        assert (service.get() == str(service.process.pid)) is (workers == 1)
        assert service.end() == 0
    # Once: workers end in it, and do not come back.
    assert service.out.text.count("after") == 1


def test_run_on_a_running_loop() -> None:
    """No coroutine is left that was never awaited."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"write await oneloop\.http\.serve\(app\)"):
            service.run(app, port=0)

    run(main())
    gc.collect()


def test_run_that_fails_exits_with_status_3() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import oneloop; oneloop.http.run('nowhere:app', port=0)"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "there is no module 'nowhere'" in done.stderr


def test_importing_the_name_is_cheap() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import oneloop.http, sys; print([m for m in ('asyncio', 'ssl', 'oneloop._native') if m in sys.modules])",
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def _end_with_a_connection_that_waits(server: Server, port: int, sent: bytes) -> bytes:
    """The connection comes when the loop has accepted for the last time."""
    client = socket.socket()
    client.settimeout(60)
    accept_waiting = server._accept_waiting

    async def connect() -> None:
        client.connect(("127.0.0.1", port))
        client.sendall(sent)
        await accept_waiting()

    server._accept_waiting = connect  # type: ignore[method-assign]
    await server.run(lambda: server.end(Ending.LAST))
    with client:
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_connection_that_waits_at_the_end_is_served() -> None:
    async def main() -> None:
        [listeners] = open_listeners(options)
        server = Server(load(app, interface="asgi3"), options, listeners)
        port = listeners[0].socket.getsockname()[1]
        response = await _end_with_a_connection_that_waits(server, port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert response.endswith(b"yes")

    options = Options(port=0, access_log=False)
    oneloop.run(main())


def test_a_connection_that_waits_at_the_end_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS has not begun on it."""
    monkeypatch.setattr(http_server, "UNBEGUN_S", 0.01)

    async def main() -> None:
        [listeners] = open_listeners(options)
        server = Server(load(app, interface="asgi3"), options, listeners)
        port = listeners[0].socket.getsockname()[1]
        assert await _end_with_a_connection_that_waits(server, port, b"") == b""
        assert asyncio.all_tasks() == {asyncio.current_task()}

    options = Options(port=0, access_log=False, ssl_certfile=cpython.ONLYCERT, ssl_keyfile=cpython.ONLYKEY)
    oneloop.run(main())


def test_a_later_end_is_not_outdone_by_an_earlier_one() -> None:
    async def main() -> None:
        [listeners] = open_listeners(options)
        server = Server(load(app, interface="asgi3"), options, listeners)
        server.end(Ending.NOW)
        server.end(Ending.FINISH)
        assert server._ending is Ending.NOW
        for listener in listeners:
            listener.close()

    options = Options(port=0, access_log=False)
    oneloop.run(main())


def test_a_worker_above_a_limit_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its successor may have failed to start, or another one may have been starting."""

    async def main() -> None:
        asked: list[str] = []
        server = Server(load(app, interface="asgi3"), options, [], on_limit=asked.append)
        count = server._limit_callback()
        assert count is not None
        for total in range(1, 25):
            count(total)
        assert [why.split()[3] for why in asked] == ["20", "22", "24"]
        asked.clear()
        monkeypatch.setattr(http_server, "MEMORY_INTERVAL_S", 0.001)
        server._limit_memory(10 << 40)
        monkeypatch.setattr(http_server, "read_memory_bytes", lambda: 11 << 40)
        while len(asked) < 3:
            await asyncio.sleep(0.001)
        server._timers["memory"].cancel()
        assert asked[0].startswith(f"it uses {11 << 40} bytes of memory")

    options = Options(port=0, access_log=False, limit_max_requests=20)
    oneloop.run(main())


def test_nothing_of_serve_is_left_on_the_loop() -> None:
    async def main() -> None:
        served = Served()
        await served.get()
        served.task.cancel()
        await asyncio.wait([served.task])
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [signal.getsignal(number) for number in numbers] == before

    numbers = (signal.SIGTERM,)
    before = [signal.getsignal(number) for number in numbers]
    oneloop.run(main())


@pytest.mark.parametrize(("given", "grace_s"), [({}, 1.0), ({"timeout_graceful_shutdown": 7}, 7)])
def test_requests_do_not_hold_up_a_reload(given: dict[str, Any], grace_s: float) -> None:
    options = service._for_reload(Options(reload=True, **given), "a:b")
    assert options.timeout_graceful_shutdown == grace_s


def test_folders_stay_those_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders, _, _ = settings([("/static", "www")], [])
    assert folders == [("/static", str(tmp_path / "www"))]


def test_standard_output_that_was_closed_gets_no_access_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its number is that of something else now, perhaps of the program's database."""
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.setattr(logging.getLogger("oneloop"), "propagate", True)

    async def main() -> None:
        served = Served(access_log=True)
        assert (await served.get()).endswith(b"yes")
        served.stop.set()
        await served.task

    run(main())
    assert "standard output was closed" in caplog.text
    assert "GET" not in capfd.readouterr().out
