"""Flask under gunicorn with our worker classes and with its own for gevent, and under our pywsgi."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYWSGI = """
import signal, sys
from oneloop.green import monkey
monkey.patch_all()
from oneloop.green import signal as green_signal, socket, spawn
from oneloop.green.pywsgi import WSGIServer
from tests.ecosystem.wsgi_app import app
server = WSGIServer(socket.socket(fileno=int(sys.argv[1])), app)
server.stop_timeout = 20
signal.signal(signal.SIGTERM, lambda *_: spawn(server.close))
server.serve_forever()
"""
# gunicorn's own workers for gevent, on the facade.
REPLACED = ["-m", "oneloop", "run", "--replace", "gevent", "-m", "gunicorn"]
SERVERS = {
    "gunicorn": ["-m", "gunicorn", "-k", "oneloop.green.gunicorn.Worker"],
    "gunicorn with pywsgi": ["-m", "gunicorn", "-k", "oneloop.green.gunicorn.PyWSGIWorker"],
    "gunicorn for gevent": [*REPLACED, "-k", "gevent"],
    "gunicorn for gevent with pywsgi": [*REPLACED, "-k", "gevent_pywsgi"],
    "pywsgi": ["-c", PYWSGI],
}


class Served(NamedTuple):
    address: tuple[str, int]
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture(params=SERVERS)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    command = SERVERS[request.param]
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
        number = listener.fileno()
        if command[0] == "-m":
            more = ["--no-control-socket", "--graceful-timeout", "100", "-b", f"fd://{number}"]
            command = [*command, *more, "tests.ecosystem.wsgi_app:app"]
        else:
            command = [*command, str(number)]
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            pass_fds=[number],
            env={**os.environ, "HOME": str(tmp_path)},
        )
        try:
            yield Served(listener.getsockname(), process, log)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def test_requests(served: Served) -> None:
    assert served.ask("GET", "/") == (200, b"hello")
    data = bytes(range(256)) * 1000
    assert served.ask("POST", "/echo", data) == (200, data)
    assert served.ask("GET", "/nowhere")[0] == 404
    assert served.ask("GET", "/fail")[0] == 500
    assert "LookupError: of the application" in served.log.read_text()


def test_requests_are_served_at_once(served: Served) -> None:
    answers = []
    asking = [threading.Thread(target=lambda: answers.append(served.ask("GET", "/together/20"))) for _ in range(20)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert answers == [(200, b"all")] * 20


def test_a_graceful_end(served: Served, tmp_path: Path) -> None:
    """A request that is being answered when the end is asked for is answered; an idle connection does not hinder."""
    path = tmp_path / "end"
    idle, busy = (http.client.HTTPConnection(*served.address, timeout=60) for _ in range(2))
    with contextlib.closing(idle), contextlib.closing(busy):
        idle.request("GET", "/")
        assert idle.getresponse().read() == b"hello"
        busy.request("POST", "/until", str(path))
        answer = busy.getresponse()
        assert answer.read(6) == b"begun "
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(0.3)
        path.touch()
        assert answer.read() == b"ended"
        assert served.process.wait(60) == 0
    assert "Traceback" not in served.log.read_text()
