"""anyio's own test suite, in a process of its own, on stock asyncio and on oneloop: nothing may fail on ours alone."""

from __future__ import annotations

import re
import socket
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import programs
from tests.programs import ROOT

SOURCES = sorted((ROOT / ".build" / "anyio").glob("anyio-*/tests"))

# By name, with the reason; the test fails when one of these passes on oneloop.
EXCUSED: dict[str, str] = {}


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


def outcomes_on(loop: str, directory: Path, files: tuple[str, ...] = ()) -> dict[str, str]:
    """Run the suite's asyncio variants, or some of its files, on a loop; test name to passed, failed or skipped."""
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
        env={"ONELOOP_TEST_LOOP": loop, "PYTHONPATH": str(ROOT / "tests" / "ecosystem" / "plugins")},
        limit_s=280,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    print(loop, done.stdout.splitlines()[-1])
    found: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        # Addresses in parameters differ from run to run.
        name = re.sub(r"0x[0-9a-f]+", "0x", name)
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def file_of(name: str) -> str:
    """The file of a test: "tests.streams.test_tls.TestTLSStream::test_x" is in tests/streams/test_tls.py."""
    parts = name.partition("::")[0].split(".")
    module = next(index for index, part in enumerate(parts) if part.startswith("test_"))
    return "/".join(parts[: module + 1]) + ".py"


@pytest.mark.skipif(not SOURCES, reason="needs anyio's sources (scripts/anyio-tests.sh)")
@pytest.mark.allows_open_fds("the junit report")
@pytest.mark.time_limit(600)  # the whole test suite, on either loop
def test_the_same_tests_pass(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        stock, ours = pool.map(lambda loop: outcomes_on(loop, tmp_path), ("asyncio", "oneloop"))
    passing = {name for name, outcome in stock.items() if outcome == "passed"}
    assert len(passing) > 1000
    lost = {name: ours.get(name, "missing") for name in passing if ours.get(name) != "passed"}
    if lost:
        # Once more alone, so that a loaded machine does not decide.
        print("failed at first:", *lost)
        again = outcomes_on("oneloop", tmp_path, tuple(sorted({file_of(name) for name in lost})))
        lost = {name: outcome for name, outcome in lost.items() if again.get(name) != "passed"}
    assert {name: outcome for name, outcome in lost.items() if name not in EXCUSED} == {}
    assert [name for name in EXCUSED if name not in lost] == []
