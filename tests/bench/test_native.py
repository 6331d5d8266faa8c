"""The leash on which programs run. The native unit tests are cargo's: `cargo test` in bench/native."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.process import Program, native


def test_the_leash_pins_its_program_to_one_cpu() -> None:
    cpu = max(os.sched_getaffinity(0))
    code = "import os; print(sorted(os.sched_getaffinity(0)), flush=True)"
    with Program([sys.executable, "-c", code], cpu) as program:
        assert program.read_line(60) == f"[{cpu}]"


def test_a_program_that_cannot_be_started_says_so() -> None:
    with Program(["/no/such/program"], None) as program:
        assert program.wait(60) == 1
        assert "/no/such/program: No such file" in program.ending()


def test_killing_the_starter_kills_the_program() -> None:
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([{native('leash')!r}, '-', 'sleep', '60'])\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        wait_until_named(pid, "sleep")
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, "the program outlived its starter"


def wait_until_named(pid: int, name: str) -> None:
    """Until the leash has become the program: only then is the kernel told to cut it."""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/comm").read_text().strip() != name:
        assert time.monotonic() < deadline, f"the leash did not start {name}"


def is_alive(pid: int) -> bool:
    """Not gone, and not a zombie that its new parent has yet to collect."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
