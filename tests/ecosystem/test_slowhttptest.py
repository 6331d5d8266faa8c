"""slowhttptest's attacks: slow heads, slow bodies, slow reading, overlapping ranges. Others are served meanwhile."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ecosystem.conftest import accepts, free_port, running
from tests.programs import ROOT

PROGRAM = shutil.which("slowhttptest")
CONNECTIONS = 900

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs slowhttptest (Debian package slowhttptest)")


@pytest.fixture
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    pytest.importorskip("starlette")
    port = free_port()
    app = "tests.ecosystem.frameworks.starlette_site:app"
    command = [sys.executable, "-m", "oneloop", "serve", app, "--port", str(port), "--no-access-log"]
    with running(command, tmp_path_factory.mktemp("serve") / "log", lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        yield port


@pytest.mark.time_limit(60)
@pytest.mark.parametrize(
    "mode",
    [
        ["-H", "-u", "/text"],
        ["-B", "-u", "/echo", "-s", "100000"],
        ["-X", "-u", "/static/file.txt", "-k", "3", "-w", "1", "-y", "2", "-n", "1", "-z", "1"],
        ["-R", "-u", "/static/file.txt", "-t", "GET", "-a", "1", "-b", "3000"],
    ],
    ids=["heads", "bodies", "reading", "ranges"],
)
def test_others_are_served(mode: list[str], port: int) -> None:
    assert PROGRAM is not None
    at = mode.index("-u") + 1
    mode = [*mode[:at], f"http://127.0.0.1:{port}{mode[at]}", *mode[at + 1 :]]
    command = [
        PROGRAM,
        *mode,
        "-c",
        str(CONNECTIONS),
        "-r",
        str(CONNECTIONS // 2),
        "-i",
        "1",
        "-x",
        "5",
        "-p",
        "2",
        "-l",
        "6",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout)
    said = re.findall(r"service available:\s+(\w+)", text)
    assert said, text[-2000:]
    assert set(said) == {"YES"}
