"""wrk and h2load (`--h1`) against `oneloop serve`: short runs in which every answer is right."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.harness.control import server_command
from tests.ports import free_port
from tests.programs import ROOT

WRK, H2LOAD = shutil.which("wrk"), shutil.which("h2load")
SCRIPT = Path(__file__).parent / "clients/checked.lua"
REQUESTS = 10_000

pytestmark = pytest.mark.controlled


@pytest.fixture(scope="module", params=["one process", "two workers"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    workers = ["--workers", "2"] if request.param == "two workers" else []
    command = server_command("tests.ecosystem.page:app", port, "--no-access-log", *workers)
    log = tmp_path_factory.mktemp("serve") / "log"
    with running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        yield f"http://127.0.0.1:{port}"
    assert "WARNING" not in log.read_text()
    assert "ERROR" not in log.read_text()


def output(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(WRK is None, reason="needs wrk (Debian package wrk)")
@pytest.mark.parametrize("depth", [1, 8])
def test_wrk(base: str, depth: int) -> None:
    options = ["-t", "2", "-c", "50", "-d", "3s", "--timeout", "60s"]
    command = [str(WRK), *options, "-s", str(SCRIPT), base, "--", str(depth)]
    text = output(command)
    counts = dict(re.findall(r"^(right|wrong|errors) (\d+)$", text, re.MULTILINE))
    assert int(counts["right"]) > 50, text
    assert (counts["wrong"], counts["errors"]) == ("0", "0"), text


@pytest.mark.skipif(H2LOAD is None, reason="needs h2load (Debian package nghttp2-client)")
@pytest.mark.parametrize("depth", [1, 16])
@pytest.mark.parametrize("path", ["/number/1234567", "/stream"])
def test_h2load(base: str, path: str, depth: int) -> None:
    count = REQUESTS if path.startswith("/number") else REQUESTS // 50
    text = output([str(H2LOAD), "--h1", "-n", str(count), "-c", "50", "-m", str(depth), "-N", "20", base + path])
    assert f"{count} done, {count} succeeded, 0 failed, 0 errored, 0 timeout" in text, text
    assert f"{count} 2xx, 0 3xx, 0 4xx, 0 5xx" in text, text
    length = 7 if path.startswith("/number") else 500_000
    (data,) = re.findall(r"\((\d+)\) data", text)
    assert int(data) == count * length, text
