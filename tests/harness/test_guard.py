"""Tests that hang, in a pytest of their own: each is named, fails, and lets the others run or ends the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import asyncio, itertools, os, signal, threading, time
import oneloop, pytest
"""


def run_pytest(directory: Path, tests: str, limit_s: float = 0.5, grace_s: float = 20.0) -> tuple[int, str]:
    """Run a test file under the guard; its exit status, and what it printed."""
    file = directory / "test_hanging.py"
    file.write_text(HEAD + tests)
    command = [sys.executable, "-m", "pytest", "-p", "tests.harness.guard", "-p", "no:cacheprovider", "-q", "--tb=line"]
    command += ["-p", "no:asyncio"]
    environment = os.environ | {"ONELOOP_TEST_LIMIT_S": str(limit_s), "ONELOOP_TEST_GRACE_S": str(grace_s)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    ran = subprocess.run(
        [*command, "-c", "/dev/null", f"--rootdir={directory}", str(file)],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout + ran.stderr


HANGING = {
    "a lock": "[lock.acquire() or lock.acquire() for lock in [threading.Lock()] if lock.acquire()]",
    "a pipe": "os.read(os.pipe()[0], 1)",
    "sleep": "time.sleep(1000)",
    "a busy loop": "exec('while True: pass')",
    "a loop that runs for ever": "loop.run_forever()",
    "a callback": "(loop.call_soon(time.sleep, 1000), loop.run_forever())",
    "a task": "loop.run_until_complete(asyncio.sleep(1000))",
    "a loop in a thread": "[t.start() or t.join() for t in [threading.Thread(target=loop.run_forever, daemon=True)]]",
}


def test_what_hangs_fails_and_the_rest_runs(tmp_path: Path) -> None:
    tests = "".join(
        f"def test_{number}():\n    loop = oneloop.new_event_loop()\n    {hanging}\n"
        for number, hanging in enumerate(HANGING.values())
    )
    status, said = run_pytest(tmp_path, tests + "def test_passes():\n    pass\n")
    assert status == 1, said
    for number, what in enumerate(HANGING):
        assert f"test_hanging.py::test_{number} (call) did not end within 0.5 s" in said, what
    assert f"{len(HANGING)} failed, 1 passed" in said


def test_setup_and_teardown_are_bounded_too(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
@pytest.fixture
def slow_setup():
    time.sleep(1000)

@pytest.fixture
def slow_teardown():
    yield
    time.sleep(1000)

def test_one(slow_setup):
    pass

def test_two(slow_teardown):
    pass
""",
    )
    assert status == 1, said
    assert "test_one (setup) did not end within 0.5 s" in said
    assert "test_two (teardown) did not end within 0.5 s" in said


def test_a_limit_of_its_own(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
@pytest.mark.time_limit(30)
def test_long():
    time.sleep(1.5)

@pytest.mark.time_limit(0.3)
def test_short():
    time.sleep(0.9)
""",
        limit_s=0.7,
    )
    assert status == 1, said
    assert "test_short (call) did not end within 0.3 s" in said
    assert "1 failed, 1 passed" in said


def test_alarms_are_the_tests_own(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
def test_alarm():
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.pause()
    assert seen
    time.sleep(1000)
""",
    )
    assert status == 1, said
    assert "test_alarm (call) did not end within 0.5 s" in said


def test_native_code_that_does_not_come_back_is_aborted(tmp_path: Path) -> None:
    """No Python code of the test runs again: this must not depend on a handler written in Python."""
    status, said = run_pytest(
        tmp_path,
        """
def test_never():
    sum(itertools.repeat(0))

def test_not_reached():
    pass
""",
        grace_s=1.0,
    )
    assert status == -6, (status, said)
    assert "test_hanging.py::test_never (call) did not end within 0.5 s and does not react" in said
    assert "in test_never" in said  # its stack
