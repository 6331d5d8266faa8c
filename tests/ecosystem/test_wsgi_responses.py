"""WSGI frameworks on our connections: byte for byte what gunicorn answers, save date, server, chunks, case of names."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ecosystem.asked import BODIES, REQUESTS, STATUSES
from tests.ecosystem.conftest import accepts, running
from tests.http.wsgi_peers import Served, read_all, served, taken_apart
from tests.ports import free_port
from tests.programs import ROOT

SITES = {"flask": "flask_site", "django": "django_wsgi_site", "falcon": "falcon_wsgi_site"}


@pytest.fixture(scope="module", params=SITES)
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip(request.param)
    pytest.importorskip("gunicorn")
    with pytest.MonkeyPatch.context() as patch:
        # Flask keeps the methods that it allows in a set.
        patch.setenv("PYTHONHASHSEED", "0")
        patch.setenv("SITE_FOLDER", str(tmp_path_factory.mktemp("site")))
        yield f"tests.ecosystem.frameworks.{SITES[request.param]}:app"


@pytest.fixture(scope="module")
def theirs(app: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gunicorn."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}"]
    log: Path = tmp_path_factory.mktemp("gunicorn") / "log"
    with running([*command, "--no-control-socket", app], log, lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        yield port


@pytest.fixture(scope="module", params=["green", "threads"])
def ours(request: pytest.FixtureRequest, app: str) -> Iterator[Served]:
    with served(request.param, app=app) as server:
        yield server


def answered(port: int, sent: bytes) -> bytes:
    line, rest = sent.split(b"\r\n", 1)
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(line + b"\r\nConnection: close\r\n" + rest)
        return read_all(sock)


def compared(data: bytes, method: str) -> tuple[bytes, bytes]:
    """The head without what is the server's own, names in lower case; the body without its framing."""
    head, end, rest = data.partition(b"\r\n\r\n")
    head = re.sub(rb"\r\n[^:]+:", lambda name: name[0].lower(), head)
    (answer,) = taken_apart(head + end + rest, method)
    assert not answer.is_cut
    return re.sub(rb"\r\n(date|expires|server|connection|transfer-encoding): [^\r]*", b"", head), answer.body


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_as_gunicorn(ours: Served, theirs: int, app: str, name: str) -> None:
    method = REQUESTS[name].partition(b" ")[0].decode()
    head, body = compared(answered(ours.port, REQUESTS[name]), method)
    assert (head, body) == compared(answered(theirs, REQUESTS[name]), method)
    assert int(head[9:12]) in STATUSES.get(name, (200,))
    # Django reads as much as Content-Length says.
    if name in BODIES and not ("django" in app and name == "echo-chunked"):
        assert body == BODIES[name]
