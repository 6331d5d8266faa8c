"""Servers and libraries that choose their loops get oneloop under `oneloop run`, in each of their processes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.command import LIMIT_S, ONELOOP_RUN, run

APP = """
import asyncio, os

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    text = f"{type(asyncio.get_running_loop()).__module__} {os.getpid()}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": text})
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Connections wait in it until the server accepts them: nobody has to poll."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def ask(port: int) -> tuple[str, int]:
    """The module of the loop that answers, and its process."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/")
        module, process = connection.getresponse().read().decode().split()
        return module, int(process)
    finally:
        connection.close()


@contextmanager
def serving(*command: str, cwd: Path, fds: tuple[int, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a session of its own, so that nothing of it is left at the end."""
    log = (cwd / "log").open("wb")
    with (
        log,
        subprocess.Popen(command, cwd=cwd, pass_fds=fds, stderr=log, stdout=log, start_new_session=True) as server,
    ):
        try:
            yield server
        except BaseException:
            print((cwd / "log").read_text())
            raise
        finally:
            server.terminate()
            try:
                server.wait(LIMIT_S)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)


SERVERS = {
    "uvicorn": ["-m", "uvicorn", "app:app", "--fd", "{fd}"],
    "uvicorn uvloop": ["-m", "uvicorn", "app:app", "--fd", "{fd}", "--loop", "uvloop"],
    "uvicorn asyncio": ["-m", "uvicorn", "app:app", "--fd", "{fd}", "--loop", "asyncio"],
    "uvicorn workers": ["-m", "uvicorn", "app:app", "--fd", "{fd}", "--workers", "2"],
    "uvicorn workers replace": ["--replace", "uvloop", "-m", "uvicorn", "app:app", "--fd", "{fd}", "--workers", "2"],
    "hypercorn": ["-m", "hypercorn", "app:app", "-b", "fd://{fd}"],
    "hypercorn uvloop": ["-m", "hypercorn", "app:app", "-b", "fd://{fd}", "-k", "uvloop", "-w", "2"],
    "gunicorn uvicorn": ["-m", "gunicorn", "app:app", "-b", "fd://{fd}", "-k", "uvicorn.workers.UvicornWorker"],
    "gunicorn h11": ["-m", "gunicorn", "app:app", "-b", "fd://{fd}", "-k", "uvicorn.workers.UvicornH11Worker"],
    "gunicorn asgi": ["-m", "gunicorn", "app:app", "-b", "fd://{fd}", "-k", "asgi", "-w", "2"],
    "gunicorn asgi asyncio": ["-m", "gunicorn", "app:app", "-b", "fd://{fd}", "-k", "asgi", "--asgi-loop", "asyncio"],
}


@pytest.mark.parametrize("server", SERVERS)
def test_servers_that_are_given_a_socket(tmp_path: Path, listener: socket.socket, server: str) -> None:
    for needed in server.split()[:2]:
        if needed in ("uvicorn", "hypercorn", "gunicorn", "uvloop"):
            pytest.importorskip(needed)
    (tmp_path / "app.py").write_text(APP)
    fd = listener.fileno()
    command = [word.format(fd=fd) for word in SERVERS[server]]
    with serving(*ONELOOP_RUN, *command, cwd=tmp_path, fds=(fd,)) as process:
        module, pid = ask(listener.getsockname()[1])
    assert module == "oneloop.loop"
    has_workers = server.startswith(("gunicorn", "hypercorn")) or "workers" in server
    assert (pid != process.pid) == has_workers
    assert "oneloop run:" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("loop", ["auto", "asyncio", "uvloop"])
def test_granian(tmp_path: Path, loop: str) -> None:
    pytest.importorskip("granian")
    (tmp_path / "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    command = ["-m", "granian", "app:app", "--interface", "asginl", "--port", str(port), "--loop", loop]
    module = ""
    with serving(*ONELOOP_RUN, *command, cwd=tmp_path) as process:
        while process.poll() is None and not module:
            with suppress(ConnectionRefusedError):
                module, _ = ask(port)
    text = (tmp_path / "log").read_text()
    if loop == "auto" and find_spec("rloop") is not None:
        # It prefers a package that has no facade.
        assert module == "rloop.loop"
        assert "does not run on oneloop: granian/" in text
    else:
        assert module == "oneloop.loop"
        assert "oneloop run:" not in text


def test_aiohttp_under_gunicorn(tmp_path: Path, listener: socket.socket) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("gunicorn")
    program = """
import asyncio, os
from aiohttp import web

async def answer(request):
    return web.Response(text=f"{type(asyncio.get_running_loop()).__module__} {os.getpid()}")

app = web.Application()
app.add_routes([web.get("/", answer)])
"""
    (tmp_path / "app.py").write_text(program)
    fd = listener.fileno()
    command = ["-m", "gunicorn", "app:app", "-b", f"fd://{fd}", "-k", "aiohttp.GunicornWebWorker"]
    with serving(*ONELOOP_RUN, *command, cwd=tmp_path, fds=(fd,)):
        module, _ = ask(listener.getsockname()[1])
    assert module == "oneloop.loop"


def test_anyio_that_is_asked_for_uvloop(tmp_path: Path) -> None:
    pytest.importorskip("anyio")
    pytest.importorskip("uvloop")
    program = """
import anyio, asyncio

async def main():
    print(type(asyncio.get_running_loop()).__module__)

anyio.run(main, backend_options={"use_uvloop": True})
anyio.run(main)
"""
    (tmp_path / "program.py").write_text(program)
    done = run(*ONELOOP_RUN, "program.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("oneloop.loop\n" * 2, "")


def test_trio_is_told(tmp_path: Path) -> None:
    pytest.importorskip("trio")
    done = run(*ONELOOP_RUN, "-c", "import trio; trio.run(trio.sleep, 0)", cwd=tmp_path)
    assert done.returncode == 0
    assert "created no event loop" in done.stderr
    assert "trio" in done.stderr


def test_uvloop_that_is_kept_is_told(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    program = "import asyncio, uvloop; uvloop.run(asyncio.sleep(0))"
    done = run(*ONELOOP_RUN, "--keep-named", "-c", program, cwd=tmp_path)
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert "uvloop.Loop" in line
    assert "--keep-named" in line
    assert sys.executable not in line
