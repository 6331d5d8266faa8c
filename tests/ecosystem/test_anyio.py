"""anyio's own test suite, in a process of its own, on stock asyncio and on oneloop: nothing may fail on ours alone."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.ecosystem.suites import Outcomes, check, outcomes_in
from tests.ipv6 import has_ipv6
from tests.programs import ROOT

SOURCES = sorted((ROOT / ".build" / "anyio").glob("anyio-*/tests"))

# By name, with the reason: they fail on either loop on a busy machine.
UNSURE = {
    "tests/test_to_thread.py::TestBlockingPortalProvider::test_single_thread": (
        "It counts the threads of the process before and after, among them those of the tests before that still end."
    )
}


def left_out() -> list[str]:
    """Words of tests that run on neither loop."""
    # uvloop and trio are other loops than the one under test. The back-pressure tests wait for the buffer of a
    # datagram socket to fill, which does not happen on every kernel's loopback: then they fail on stock asyncio too.
    words = ["uvloop", "trio", "UDPSocketBackpressure"]
    try:
        socket.getaddrinfo("localhost", 1, family=socket.AF_INET6)
    except socket.gaierror:
        words.append("ipv6")
    return words


def outcomes_on(loop: str, directory: Path, files: tuple[str, ...] = ()) -> Outcomes:
    """Run the suite's asyncio variants, or some of its files, on a loop."""
    report = directory / f"{loop}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "--tb=short", f"--junit-xml={report}"]
    command += ["-p", "no:asyncio"]
    command += ["-p", "anyio_loop", "-p", "no:cacheprovider", "-m", "not network"]
    command += [
        "-k",
        " and ".join(f"not {word}" for word in left_out()),
        "--ignore=tests/test_pytest_plugin.py",
        *(f"--deselect={name}" for name in UNSURE),
        *files,
    ]
    done = programs.run_command(
        *command,
        cwd=SOURCES[-1].parent,
        env={
            "ONELOOP_TEST_LOOP": loop,
            "ONELOOP_TEST_IPV6": str(int(has_ipv6())),
            "PYTHONPATH": str(ROOT / "tests" / "ecosystem" / "plugins"),
        },
        limit_s=280,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    print(loop, done.stdout.splitlines()[-1])
    return outcomes_in(report)


@pytest.mark.skipif(not SOURCES, reason="needs anyio's sources (scripts/anyio-tests.sh)")
@pytest.mark.allows_open_fds("the junit report")
@pytest.mark.time_limit(600)  # the whole test suite, on either loop
def test_the_same_tests_pass(tmp_path: Path) -> None:
    check(
        lambda files: outcomes_on("oneloop", tmp_path, files),
        lambda files: outcomes_on("asyncio", tmp_path, files),
        least=1000,
    )
