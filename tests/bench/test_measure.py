"""Reading /proc: this process, its children, processes that have gone."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from bench import measure


def test_cpu_time_of_this_process_grows_with_its_work() -> None:
    import os

    before = measure.process_cpu_ns(os.getpid())
    clock = time.process_time_ns()
    while time.process_time_ns() - clock < 5_000_000:
        pass
    assert measure.process_cpu_ns(os.getpid()) - before >= 5_000_000


def test_the_tree_counts_children_and_their_memory() -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['cat']); print(p.pid, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            wait_for_memory(child)
            assert measure.process_tree(parent.pid) == [parent.pid, child]
            whole, part = measure.read_usage(parent.pid), measure.read_usage(child)
            assert whole.processes == 2
            assert whole.rss_bytes > part.rss_bytes > 0
            assert measure.private_bytes(parent.pid) > 0
        finally:
            parent.kill()


def wait_for_memory(pid: int) -> None:
    """A program that has just been started has no pages yet."""
    deadline = time.monotonic() + 60
    while measure.read_usage(pid).rss_bytes == 0:
        assert time.monotonic() < deadline


def test_a_process_that_has_gone_is_an_error() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(ProcessLookupError, match="has ended"):
        measure.read_usage(gone.pid)


def test_cost_per_message_from_two_readings() -> None:
    before = measure.Usage(1_000, 10, 10, 1, 2, 1, 5, 5, 1)
    after = measure.Usage(11_000, 13, 17, 100, 200, 2, 9, 11, 1)
    found = measure.server_metrics(before, after, messages=10)
    assert found["server_cpu_ns"] == 1_000
    assert found["server_user_ns"] == pytest.approx(300)
    assert found["server_system_ns"] == pytest.approx(700)
    assert (found["rss_bytes"], found["threads"], found["switches"]) == (100, 2, 1.0)
