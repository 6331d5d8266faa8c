"""A process that ends what hangs: told of each step and its limit, it signals who told it, then aborts it.

`python -m tests.harness.watchdog PID SIGNAL GRACE_S` reads lines "LIMIT_S NAME" from its standard input: NAME may take
so long from now. An empty line says that it has ended. When the time is over, PID gets SIGNAL, every second, and after
GRACE_S more seconds SIGABRT, upon which its faulthandler prints all stacks. At the end of its input it ends.

A process and not a thread or an alarm: a loop in native code that never comes back to Python can be ended, SIGALRM
stays free for the tests, and a test that forks finds one thread only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass

AGAIN_S = 1.0


@dataclass
class Step:
    """What is being waited for; times are those of `time.monotonic`."""

    name: str
    limit_s: float
    next_signal: float
    abort_at: float


def begun(line: str, grace_s: float) -> Step | None:
    if not line:
        return None
    limit, _, name = line.partition(" ")
    end = time.monotonic() + float(limit)
    return Step(name, float(limit), end, end + grace_s)


def remind(step: Step, pid: int, number: int) -> None:
    """Signal the process if the step's time is over; abort it if it does not react."""
    now = time.monotonic()
    if now >= step.abort_at:
        message = (
            f"\n{step.name} did not end within {step.limit_s:g} s and does not react: aborted, all stacks follow\n"
        )
        os.write(sys.stderr.fileno(), message.encode())
        os.kill(pid, signal.SIGABRT)
        sys.exit()
    if now >= step.next_signal:
        step.next_signal = now + AGAIN_S
        os.kill(pid, number)


def watch(pid: int, number: int, grace_s: float) -> None:
    step: Step | None = None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        while True:
            if step is not None:
                remind(step, pid, number)
            if not selector.select(AGAIN_S / 4 if step is not None else None):
                continue
            data = os.read(sys.stdin.fileno(), 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            if lines:
                step = begun(lines[-1].decode(), grace_s)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # meant for the tests, which end by them and close standard input
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)  # no child of the tests, which count theirs
    with contextlib.suppress(ProcessLookupError):
        watch(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))


if __name__ == "__main__":
    main()
