"""Programs for gevent, unchanged, under `oneloop run --replace gevent`: packages that are built on gevent itself."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port

pytestmark = pytest.mark.time_limit(180)

ROOT = Path(__file__).resolve().parents[2]
FACADE = "oneloop.compat.gevent"
LIMIT_S = 60


def need(*names: str) -> None:
    """They are looked for, not imported: locust would patch this process."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")


def run_replaced(*program: object) -> subprocess.CompletedProcess[str]:
    """The program has ended well."""
    command = [sys.executable, "-X", "faulthandler", "-m", "oneloop", "run", "--replace", "gevent", *map(str, program)]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_program(name: str, *needs: str) -> list[str]:
    """The lines that a program of the folder prints; the last one is the name of its gevent."""
    need(*needs)
    *lines, gevent = run_replaced("-m", f"tests.ecosystem.gevent_programs.{name}").stdout.splitlines()
    assert gevent == FACADE
    return lines


def test_locust(tmp_path: Path) -> None:
    """1,000 users of both kinds, on our own server."""
    need("locust")
    port = free_port()
    serve = [sys.executable, "-m", "oneloop", "serve", "tests.ecosystem.gevent_programs.page:app", "--port", str(port)]
    with running(serve, tmp_path / "log", lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        load = ["-m", "locust", "-f", "tests/ecosystem/gevent_programs/load.py", "--headless", "--users", "1000"]
        load += ["--spawn-rate", "1000", "--run-time", "50s", "--host", f"http://127.0.0.1:{port}", "--only-summary"]
        done = run_replaced(*load)
    assert f"{FACADE}: 1000 users, 0 failures" in done.stdout.splitlines()
    assert "run-time limit reached" not in done.stderr


def test_zeromq() -> None:
    assert run_program("zeromq", "zmq") == ["asked", "pushed"]


def test_gevent_websocket() -> None:
    assert run_program("websockets", "geventwebsocket", "websocket") == ["echoed", "chatted"]


def test_flask_socketio() -> None:
    assert run_program("socketio_rooms", "flask_socketio", "websocket") == ["polling", "websocket"]


def test_grpc() -> None:
    assert run_program("grpc_both_ends", "grpc") == []
