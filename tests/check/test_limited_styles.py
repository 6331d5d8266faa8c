"""The other styles have the limits of the default one: body, total time, memory, signals. Each against the farm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pycares")

from tests.check.cases import to
from tests.check.farm.process import Farm
from tests.programs import ROOT

pytestmark = pytest.mark.time_limit(200)

STYLES = ["coroutines", "threads", "green", "processes"]
# For the command and each of its processes. What one URL may send in the test's time is much more.
MEMORY_BYTES = 2 << 30
COMMAND = (
    "import resource, runpy, sys;"
    f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}));"
    "sys.argv = ['oneloop', *sys.argv[1:]];"
    "runpy.run_module('oneloop', run_name='__main__')"
)
PATIENCE_S = 160

ENDLESS = {
    "/endless/body": "200",
    "/endless/chunks": "200",
    "/endless/headers": "protocol",
    "/endless/header": "protocol",
    "/gzip/2000": "200",
    "/bytes/3000000": "200",
    "/short/100000": "protocol",
    "/redirect/11": "too_many_redirects",
    "/redirect/3": "200",
}
WAITING = dict.fromkeys(("/slow/first", "/slow/head", "/slow/headers", "/slow/body", to("/slow/head")), "timeout")


@contextmanager
def checking(style: str, urls: list[str], folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command in this style, with a list of URLs and a limit of memory."""
    if style == "green":
        pytest.importorskip("greenlet")
    (folder / "urls").write_text("\n".join([*urls, ""]))
    command = [sys.executable, "-c", COMMAND, "check", str(folder / "urls"), "--jsonl", str(folder / "results")]
    command += ["--no-progress", "--concurrency", "20", *options]
    if style == "coroutines":
        command += ["--retries", "0"]
    else:
        command += ["--style", style]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.mark.parametrize(("paths", "timeout_s"), [(ENDLESS, 100), (WAITING, 1)], ids=["endless", "waiting"])
@pytest.mark.parametrize("style", STYLES)
def test_what_never_ends_is_ended(
    style: str, paths: dict[str, str], timeout_s: int, farm: Farm, tmp_path: Path
) -> None:
    wanted = {farm.url(path): outcome for path, outcome in paths.items()}
    with checking(style, list(wanted), tmp_path, "--timeout", str(timeout_s)) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    found = {result["url"]: result for result in map(json.loads, (tmp_path / "results").read_text().splitlines())}
    outcomes = {url: str(result["status"] or result["error"]) for url, result in found.items()}
    assert outcomes == wanted, errors
    for result in found.values():
        assert result["body_bytes"] <= 1 << 20
        assert result["total_s"] < timeout_s + 20


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_what_waits(style: str, number: signal.Signals, status: int, farm: Farm, tmp_path: Path) -> None:
    """Long before its timeout, and without a process that is left."""
    urls = [farm.url(path) for path in ("/slow/body", "/slow/first", "/slow/head")]
    with checking(style, urls, tmp_path, "--timeout", "600") as process:
        deadline = time.monotonic() + PATIENCE_S
        while farm.connections() < len(urls):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status, errors
    assert "interrupted; these are the counts so far" in errors
    assert "Traceback" not in errors
    assert json.loads(output.splitlines()[-1]) == {}
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
