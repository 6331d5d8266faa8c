"""Relative paths mean those of the start, also with an application that changes its directory."""

from __future__ import annotations

import shutil
import signal
import socket
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.http.service import APPS, Service
from tests.http.test_listening import ask_path
from tests.http.test_tls import ask

pytestmark = pytest.mark.time_limit(180)

CHANGES = {
    "import": """
        import os
        import oneloop_apps
        from oneloop_apps import *

        os.chdir("/")
    """,
    "lifespan": """
        import os
        import oneloop_apps

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                os.chdir("/")
            await oneloop_apps.app(scope, receive, send)
    """,
}
WHERE = pytest.mark.parametrize("source", CHANGES.values(), ids=CHANGES)
WORKERS = pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])


@pytest.fixture(autouse=True)
def applications(tmp_path: Path) -> None:
    (tmp_path / "oneloop_apps.py").write_text(APPS)


@WHERE
@WORKERS
def test_static_files(tmp_path: Path, source: str, workers: tuple[str, ...]) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one").write_text("one")
    with Service(tmp_path, "--static", "/static=files", *workers, source=source) as service:
        assert service.get("/static/one") == "one"
        assert service.end() == 0


@WHERE
@WORKERS
def test_a_unix_socket(tmp_path: Path, source: str, workers: tuple[str, ...]) -> None:
    with Service(tmp_path, "--uds", "s", *workers, port=None, source=source) as service:
        assert ask_path(tmp_path / "s").startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    assert not (tmp_path / "s").exists()


@WHERE
@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
def test_certificates(tmp_path: Path, source: str, options: tuple[str, ...]) -> None:
    shutil.copy(ONLYCERT, tmp_path / "cert.pem")
    shutil.copy(ONLYKEY, tmp_path / "key.pem")
    files = ("--ssl-certfile", "cert.pem", "--ssl-keyfile", "key.pem")
    with Service(tmp_path, *files, *options, source=source) as service:
        assert ask(service.port)[0].startswith(b"HTTP/1.1 200 OK")
        service.send(signal.SIGHUP)
        service.log.wait_for("The certificates were reloaded")
        assert ask(service.port)[0].startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0


@WHERE
def test_workers_that_are_replaced(tmp_path: Path, source: str) -> None:
    (tmp_path / "values").write_text("GREETING=hello")
    options = ("--limit-max-requests", "1000", "--env-file", "values")
    with Service(tmp_path, *options, source=source) as service:
        assert service.get("/env") == "hello"
        (tmp_path / "values").write_text("GREETING=again")
        service.send(signal.SIGHUP)
        service.log.wait_for("Application shutdown complete")
        assert service.get("/env") == "again"
        assert service.end() == 0


def test_a_socket_is_named_as_it_was_given(tmp_path: Path) -> None:
    """A relative name may be short enough where the absolute one is not."""
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    (folder / "oneloop_apps.py").write_text(APPS)
    with Service(folder, "--uds", "s", port=None, source=CHANGES["import"]) as service:
        assert service.shown == "unix socket s"
        with socket.socket(socket.AF_UNIX) as client:
            (tmp_path / "link").symlink_to(folder)
            client.connect(str(tmp_path / "link" / "s"))
        assert service.end() == 0
    assert not (folder / "s").exists()
