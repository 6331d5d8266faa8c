"""A pytest plugin: no step of a test (setup, call, teardown) takes longer than its limit.

A step that does fails with `TimeLimitExceeded`, whatever it was waiting for. One that does not react, because native
code does not come back to the interpreter, ends the run after `GRACE_S` with the test's name and all stacks.
`@pytest.mark.time_limit(seconds)` gives a test another limit. Knows of pytest and `watchdog.py`, not of loops.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

from tests.harness.limits import END_LIMIT_S, GRACE_S, limit_of

ROOT = Path(__file__).resolve().parents[2]
# No test uses it.
SIGNAL = signal.SIGRTMIN + 7


class TimeLimitExceeded(SystemExit):
    """A step of a test took too long. A SystemExit: that leaves loops and tasks, and pytest goes on after it."""


def state_in_the_kernel() -> str:
    """Where each thread of this process waits, io_uring's workers among them, and what its rings and pollers hold.

    Stacks need root.
    """
    lines = []
    process = Path("/proc/self")
    for task in sorted((process / "task").iterdir()):
        said = []
        for name in ("comm", "wchan", "stack"):
            with contextlib.suppress(OSError):
                said.append((task / name).read_text().strip())
        lines.append(f"thread {task.name}: {' '.join(said)}")
    for number in os.listdir(process / "fd"):
        # The descriptor of the listing itself is closed by now.
        with contextlib.suppress(OSError):
            kind = os.readlink(process / "fd" / number)
            if kind.startswith("anon_inode:"):
                lines.append(f"descriptor {number}, {kind}: {(process / 'fdinfo' / number).read_text()[:2000]}")
    native = sys.modules.get("oneloop._native")
    if native is not None:
        lines += [f"file operations: {each.info()}" for each in gc.get_objects() if type(each) is native.Files]
    return "\n".join(lines)


class Guard:
    """Tells the watchdog what runs, and raises in the main thread when that signals."""

    def __init__(self, stderr: int) -> None:
        self._step: str | None = None
        self._limit_s = 0.0
        signal.signal(SIGNAL, self._exceeded)
        command = [sys.executable, "-m", "tests.harness.watchdog", str(os.getpid()), str(int(SIGNAL)), str(GRACE_S)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr, cwd=ROOT) as forks:
            assert forks.stdin is not None
            self._pipe = os.dup(forks.stdin.fileno())

    def begin(self, name: str, limit_s: float) -> None:
        self._step, self._limit_s = name, limit_s
        self._tell(f"{limit_s} {name}\n")

    def end(self) -> None:
        self._step = None
        self._tell("\n")

    def _tell(self, line: str) -> None:
        os.write(self._pipe, line.encode())

    def _exceeded(self, _number: int, _frame: FrameType | None) -> None:
        if self._step is not None:
            raise TimeLimitExceeded(f"{self._step} did not end within {self._limit_s:g} s\n{state_in_the_kernel()}")

    # -- pytest's hooks --------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        return (yield from self._bounded(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        return (yield from self._bounded(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        return (yield from self._bounded(item, "teardown"))

    def _bounded(self, item: pytest.Item, step: str) -> Generator[None]:
        self.begin(f"{item.nodeid} ({step})", limit_of(item))
        try:
            return (yield)
        finally:
            self.end()

    def pytest_unconfigure(self) -> None:
        self.begin("the end of the run", END_LIMIT_S)


@pytest.hookimpl(trylast=True)  # after pytest's own plugin has told faulthandler to write elsewhere
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "time_limit(seconds): each of setup, call and teardown may take so long")
    # Standard error as it was before pytest took it.
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=False)
    try:
        stderr = os.dup(2)
    finally:
        if capture is not None:
            capture.resume_global_capture()
    faulthandler.enable(stderr)
    config.pluginmanager.register(Guard(stderr), "oneloop-guard")
