"""slowhttptest's attacks: slow heads, slow bodies, slow reading, overlapping ranges. Others are served meanwhile.

`ONELOOP_SLOW_CONNECTIONS` says how many connections, 900 without it; 10,000 need a limit of descriptors above that, and
four minutes. `-s` shows what they cost.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descriptors import room_for
from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port
from tests.programs import ROOT

PROGRAM = shutil.which("slowhttptest")
CONNECTIONS = int(os.environ.get("ONELOOP_SLOW_CONNECTIONS", "900"))
IS_LARGE = CONNECTIONS > 2000
# How long an attack lasts. slowhttptest opens some 500 connections a second.
LENGTH_S = 50 if IS_LARGE else 6
# When its own probe gives up; it takes turns with the connections, and is late where there are many.
PROBE_S = 10 if IS_LARGE else 5
# The default deadlines would end the first of so many before the last has come.
PATIENT = ["--timeout-header", "300", "--timeout-body", "300", "--timeout-send", "300"] if IS_LARGE else []
# What a connection may cost, with the application's own request and task.
BYTES_PER_CONNECTION = 32 * 1024
# No other request may take longer; how long they took is told.
PATIENCE_S = 60

MODES = {
    "heads": ["-H", "-u", "/text"],
    "bodies": ["-B", "-u", "/echo", "-s", "100000"],
    "reading": ["-X", "-u", "/static/file.txt", "-k", "3", "-w", "1", "-y", "2", "-n", "1", "-z", "1"],
    "ranges": ["-R", "-u", "/static/file.txt", "-t", "GET", "-a", "1", "-b", "3000"],
}

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs slowhttptest (Debian package slowhttptest)")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Its port and its process id."""
    pytest.importorskip("starlette")
    port = free_port()
    app = "tests.ecosystem.frameworks.starlette_site:app"
    command = [sys.executable, "-m", "oneloop", "serve", app, "--port", str(port), "--no-access-log", *PATIENT]
    log = tmp_path_factory.mktemp("serve") / "log"
    # The server and slowhttptest inherit the limit.
    with room_for(CONNECTIONS + 100), running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=ROOT) as process:
        yield port, process.pid


class Other:
    """Another client, with a new connection for each request, in a thread; and what it and the server go through."""

    def __init__(self, port: int, process_id: int) -> None:
        self.port, self.status = port, Path(f"/proc/{process_id}/status")
        self.latencies_s: list[float] = []
        self.ended = threading.Event()
        self.ask()
        self.before_bytes = self.memory_bytes()
        self.peak_bytes = self.before_bytes
        self.thread = threading.Thread(target=self.run)

    def memory_bytes(self) -> int:
        fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", self.status.read_text(), re.MULTILINE))
        return int(fields["RssAnon"]) * 1024

    def ask(self) -> None:
        start_s = time.perf_counter()
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        client.request("GET", "/text")
        assert client.getresponse().read() == b"hello"
        client.close()
        self.latencies_s.append(time.perf_counter() - start_s)

    def run(self) -> None:
        while not self.ended.wait(0.02):
            self.ask()
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes())

    def told(self) -> str:
        ordered = sorted(self.latencies_s)
        median_s, late_s = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        growth = self.peak_bytes - self.before_bytes
        return (
            f"{CONNECTIONS} connections: {growth / 2**20:.1f} MiB more memory, {growth // CONNECTIONS} bytes each; "
            f"{len(ordered)} other requests: median {median_s * 1e3:.1f} ms, 99 % {late_s * 1e3:.1f} ms, "
            f"longest {ordered[-1] * 1e3:.1f} ms"
        )


@pytest.mark.time_limit(80 + 3 * LENGTH_S)
@pytest.mark.parametrize("name", MODES)
def test_others_are_served(name: str, server: tuple[int, int]) -> None:
    assert PROGRAM is not None
    other = Other(*server)
    at = MODES[name].index("-u") + 1
    mode = [*MODES[name][:at], f"http://127.0.0.1:{server[0]}{MODES[name][at]}", *MODES[name][at + 1 :]]
    command = [PROGRAM, *mode, "-c", str(CONNECTIONS), "-r", str(CONNECTIONS // 2), "-i", "1", "-x", "5"]
    command += ["-l", str(LENGTH_S), "-p", str(PROBE_S)]
    other.thread.start()
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=50 + 2 * LENGTH_S, stdin=subprocess.DEVNULL
        )
    finally:
        other.ended.set()
        other.thread.join()
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout)
    said = re.findall(r"service available:\s+(\w+)", text)
    assert said, text[-2000:]
    most = max(int(count) for count in re.findall(r"connected:\s+(\d+)", text))
    print(f"\n{name}: {most} at once of {other.told()}")
    assert set(said) == {"YES"}
    assert other.peak_bytes - other.before_bytes < CONNECTIONS * BYTES_PER_CONNECTION + 2**23
