"""The interpreter's test modules that are run, and their known failures."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import test

from tests.green.interpreter.run import Outcome, run_module

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MODULES", "compared", "known", "regressions"]

_ASYNCIO = (
    *("test_streams", "test_events", "test_subprocess", "test_sock_lowlevel", "test_threads", "test_ssl"),
    *("test_base_events", "test_runners", "test_locks", "test_queues", "test_tasks", "test_server", "test_unix_events"),
)
_PARTS = ("thread_pool", "process_pool", "wait", "as_completed", "future", "shutdown", "init", "deadlock")
# A package since Python 3.12.
_FUTURES = (
    [f"test_concurrent_futures.test_{name}" for name in _PARTS]
    if (Path(test.__path__[0]) / "test_concurrent_futures").is_dir()
    else ["test_concurrent_futures"]
)

MODULES = [
    "test_thread",
    "test_threading",
    "test_threading_local",
    "test_queue",
    "test_socket",
    "test_timeout",
    "test_weakref",
    "test_context",
    "test_logging",
    "test_ssl",
    "test_select",
    "test_selectors",
    "test_subprocess",
    "test_signal",
    "test_socketserver",
    "test_httplib",
    "test_httpservers",
    "test_urllib",
    "test_urllib2",
    "test_urllib2_localnet",
    "test_smtplib",
    "test_ftplib",
    "test_wsgiref",
    *_FUTURES,
    *(f"test_asyncio.{name}" for name in _ASYNCIO),
]


@cache
def known(*, for_certain: bool = False) -> dict[str, str]:
    """Return the known failures of this Python version: test -> reason.

    Args:
        for_certain: leave out the tests that fail only sometimes.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    listed: dict[str, Any] = tomllib.loads((Path(__file__).parent / "known.toml").read_text())
    found = {}
    for entry in listed.get("failure", []):
        if version in entry.get("python", [version]) and not (for_certain and entry.get("at_times")):
            for test in entry["tests"]:
                found[test] = entry["reason"]
    return found


def regressions(plain: Outcome, patched: Outcome) -> list[str]:
    """The tests that pass unpatched and do not pass patched."""
    return [test for test, state in plain.states.items() if state == "passed" and patched.states.get(test) != state]


def compared(module: str, left_out: Iterable[str] = ()) -> tuple[Outcome, Outcome]:
    """Run a module's tests unpatched and patched.

    An unexpected failure is run again alone, because the machine may have been busy. One that hung is not.
    """
    plain, patched = run_module(module, patched=False), run_module(module, patched=True, left_out=left_out)
    found = (test for test in regressions(plain, patched) if test not in known())
    failed = [test for test in found if patched.states.get(test) != "hung"]
    if failed:
        patched.update(run_module(module, patched=True, only=failed))
    return plain, patched
