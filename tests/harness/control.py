"""A pytest plugin: a test of a program of others is judged by what oneloop did, not by that program's latest release.

A test with the marker `controlled` starts its server with `server_command`. When it fails, it is run once more, alone,
in a process of its own in which that server is uvicorn on stock asyncio, the control. If it fails there too, it says
nothing of oneloop: it counts as skipped, with a reason that says so. A death, a panic or an error of the set-up is
never excused. `ONELOOP_CONTROL=1` makes every server the control.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator

import pytest

IS_CONTROL = os.environ.get("ONELOOP_CONTROL") == "1"
LIMIT_S = 300
EXCUSABLE = (AssertionError, subprocess.SubprocessError)
"""What a wrong output of a program looks like."""


def server_command(app: str, port: int, *options: str) -> list[str]:
    """`oneloop serve`, or the control; the options are those that both have."""
    program = ["uvicorn", "--loop", "asyncio"] if IS_CONTROL else ["oneloop", "serve"]
    return [sys.executable, "-m", *program, app, "--port", str(port), *options]


def _fails_on_the_control(item: pytest.Item) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", item.nodeid]
    done = subprocess.run(
        command,
        cwd=item.config.rootpath,
        env={**os.environ, "ONELOOP_CONTROL": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    print(f"the control of {item.nodeid} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.returncode == pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.failed or call.excinfo is None or IS_CONTROL or item.get_closest_marker("controlled") is None:
        return report
    if call.when == "call" and isinstance(call.excinfo.value, EXCUSABLE) and _fails_on_the_control(item):
        path, line, _ = item.reportinfo()
        report.outcome = "skipped"
        report.longrepr = (
            str(path),
            (line or 0) + 1,
            f"Skipped: not about oneloop, the control fails too: {call.excinfo.value}"[:500],
        )
    return report
