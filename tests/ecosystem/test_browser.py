"""A headless Chromium opens a page of `oneloop serve` that uses fetch, EventSource and WebSocket."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from test.test_asyncio import utils as cpython

from tests import programs
from tests.ecosystem.conftest import accepts, running
from tests.harness.control import server_command
from tests.ports import free_port
from tests.programs import ROOT

PROGRAM = shutil.which("chromium")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs chromium (Debian package chromium)")


def dom(url: str, folder: Path) -> str:
    """What the browser has made of a page when it has loaded."""
    assert PROGRAM is not None
    command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-extensions"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--ignore-certificate-errors"]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", url]
    done = programs.run_command(*command, env={"HOME": str(folder)}, limit_s=80)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.controlled
@pytest.mark.time_limit(120)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page(scheme: str, tmp_path: Path) -> None:
    port = free_port()
    tls = ["--ssl-certfile", cpython.ONLYCERT, "--ssl-keyfile", cpython.ONLYKEY] if scheme == "https" else []
    command = server_command("tests.ecosystem.page:app", port, *tls)
    log = tmp_path / "log"
    with running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        text = dom(f"{scheme}://127.0.0.1:{port}/", tmp_path)
    outcome = re.search(r"\[(.*)\]</pre>", text)
    assert outcome is not None, text + log.read_text()
    fetched, events, socket = outcome[1].split("|")
    assert fetched == f"fetched: a=%20b 300000 500000 {sum(range(50))} 404"
    assert events == "events: event 1 event 2 event 3 event 4"
    assert socket == "socket: echo permessage-deflate 100000 0-255-7 4000 true"
    assert "Traceback" not in log.read_text()
