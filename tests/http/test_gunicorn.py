"""gunicorn with oneloop's workers, for ASGI and WSGI applications."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.http.service import APPS, Service, read_all

pytest.importorskip("gunicorn")
pytestmark = pytest.mark.time_limit(180)


class Gunicorn(Service):
    """The same, with gunicorn as the parent."""

    def __init__(self, folder: Path, worker: str, *arguments: str, app: str = "apps:app", **options: Any) -> None:
        where = ("-k", f"oneloop.gunicorn.{worker}", "-b", "127.0.0.1:0", "--no-control-socket")
        command = ("-m", "gunicorn", *where)
        super().__init__(folder, *arguments, app=app, port=None, is_ready=False, command=command, **options)
        try:
            self.port = int(self.log.wait_for(r"Listening at: http://127\.0\.0\.1:(\d+)").group(1))
        except BaseException:
            self._leave_nothing()
            raise


@pytest.mark.parametrize("worker", ["Worker", "GreenWorker"])
@pytest.mark.parametrize("app", ["app", "wsgi"])
def test_both_workers_serve_both_interfaces(tmp_path: Path, worker: str, app: str) -> None:
    with Gunicorn(tmp_path, worker, "-w", "2", "--access-logfile", "-", app=f"apps:{app}") as gunicorn:
        assert str(gunicorn.process.pid) not in gunicorn.get("/")
        gunicorn.out.wait_for(r'127\.0\.0\.1:\d+ - "GET / HTTP/1\.1" 200')
        assert gunicorn.end() == 0


@pytest.mark.parametrize(("worker", "app"), [("Worker", "app"), ("Worker", "wsgi"), ("GreenWorker", "wsgi")])
def test_the_format_of_access_lines(tmp_path: Path, worker: str, app: str) -> None:
    form = "%(h)s %(u)s|%(r)s|%(m)s %(U)s %(q)s %(H)s|%(s)s %(B)s|%(f)s %(a)s|"
    form += "%({x-a}i)s %({server}o)s|%({path_info}e)s|%(p)s"
    arguments = ("--access-logfile", "-", "--access-logformat", form)
    with Gunicorn(tmp_path, worker, *arguments, app=f"apps:{app}") as gunicorn:
        fields = {"User-Agent": 'a"b', "Referer": "http://x/", "X-A": "c", "Authorization": "Basic bWU6eW91"}
        status, _, body = gunicorn.ask("GET", "/a%20b?c=d", **fields)
        assert status == 200
        pid = body.decode().split()[-1]
        wanted = f"127.0.0.1 me|GET /a%20b?c=d HTTP/1.1|GET /a b c=d HTTP/1.1|200 {len(body)}|"
        wanted += f'http://x/ a\\"b|c -|/a b|<{pid}>'
        gunicorn.out.wait_for(re.escape(wanted) + "\n")
        assert gunicorn.end() == 0


def test_a_logger_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "loggers.py").write_text(
        "from gunicorn.glogging import Logger\n\n\nclass Own(Logger):\n"
        "    def access(self, resp, req, environ, request_time):\n"
        "        print('own', resp.status, environ['RAW_URI'], request_time.total_seconds() < 60, flush=True)\n"
    )
    with Gunicorn(tmp_path, "Worker", "--logger-class", "loggers.Own") as gunicorn:
        gunicorn.get("/")
        gunicorn.out.wait_for("own 200 OK / True\n")
        assert gunicorn.end() == 0


def test_requests_under_way_are_finished(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker") as gunicorn:
        waiting = gunicorn.held("/wait")
        gunicorn.send(signal.SIGTERM)
        gunicorn.log.wait_for("Handling signal: term")
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK")
        assert gunicorn.wait() == 0


def test_the_time_is_limited(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker", "--graceful-timeout", "1") as gunicorn:
        waiting = gunicorn.held("/forever")
        assert gunicorn.end() == 0
        assert b"200 OK" not in read_all(waiting)


ENDING_SLOWLY = (
    APPS
    + """

import atexit


@atexit.register
def end():
    print("ending", os.getpid(), flush=True)
    # Without `time.sleep`, which is patched in a green worker.
    while not os.path.exists("go"):
        pass
    print("ended", os.getpid(), flush=True)
"""
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("worker", ["Worker", "GreenWorker"])
def test_signals_that_come_again_do_not_end_a_worker(tmp_path: Path, worker: str, number: signal.Signals) -> None:
    """A supervisor's signal reaches the whole group of processes, and then the arbiter sends its own."""
    with Gunicorn(tmp_path, worker, app="apps:wsgi", source=ENDING_SLOWLY) as gunicorn:
        pid = int(gunicorn.get("/").split()[-1])
        os.kill(pid, number)
        gunicorn.out.wait_for(f"ending {pid}\n")
        os.kill(pid, number)
        (tmp_path / "go").touch()
        assert gunicorn.end() == 0
    assert f"ended {pid}\n" in gunicorn.out.text
    assert f"(pid:{pid}) was sent" not in gunicorn.log.text


def test_workers_are_replaced_after_their_requests(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker", "--max-requests", "2") as gunicorn:
        first = gunicorn.get("/")
        assert gunicorn.get("/") == first
        gunicorn.log.wait_for(r"is stopping: it has served 2 requests")
        gunicorn.log.wait_for("Application startup complete")
        assert gunicorn.get("/") != first
        assert gunicorn.end() == 0


def test_a_startup_that_fails_ends_gunicorn(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker", app="apps:failing") as gunicorn:
        assert gunicorn.wait() == 3
    assert "the database is away" in gunicorn.log.text


def test_changed_files_replace_the_workers(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker", "--reload", "--reload-engine", "poll") as gunicorn:
        first = gunicorn.get("/")
        gunicorn.log.wait_for("Application startup complete")
        # The reloader knows no file before its first look at it.
        while "Worker reloading" not in gunicorn.log.text:
            with (tmp_path / "apps.py").open("a") as source:
                source.write("\n# changed\n")
            gunicorn.log.read_more(0.1)
        gunicorn.log.wait_for("Application startup complete")
        assert gunicorn.get("/") != first
        assert gunicorn.end() == 0


def test_a_worker_that_is_stuck_says_where(tmp_path: Path) -> None:
    with Gunicorn(tmp_path, "Worker", "--timeout", "2") as gunicorn:
        first = gunicorn.get("/")
        waiting = gunicorn.ask_later("/stuck")
        gunicorn.log.wait_for(r"was stuck here:(\n.*)+/apps\.py")
        assert read_all(waiting) == b""
        assert gunicorn.get("/") != first
        assert gunicorn.end() == 0


@pytest.mark.parametrize("limit", ["--limit-request-fields=0", "--limit-request-line=10", "--backlog=0"])
def test_limits_have_gunicorns_meanings(tmp_path: Path, limit: str) -> None:
    with Gunicorn(tmp_path, "Worker", limit) as gunicorn:
        with gunicorn.ask_later("/") as sock:
            assert sock.recv(65536)
        assert gunicorn.end() == 0


@pytest.mark.parametrize(("allowed", "is_taken"), [("127.0.0.1", True), ("192.0.2.9", False)])
def test_whose_proxy_header_is_taken(tmp_path: Path, allowed: str, is_taken: bool) -> None:
    with Gunicorn(tmp_path, "Worker", "--proxy-protocol", "--proxy-allow-from", allowed) as gunicorn:
        with socket.create_connection(("127.0.0.1", gunicorn.port), 30) as sock:
            sock.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\nGET /client HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (b"('192.0.2.1', 1111)" in sock.recv(4096)) is is_taken
        assert gunicorn.end() == 0
