"""Runs a scenario in forked children of this process, in each with another fault, and judges what they saw.

A child has a time limit: faulthandler then writes where it hangs and ends it. All children come from one interpreter
that has already run the scenario once, so that a run costs milliseconds.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import oneloop.loop
from oneloop import _native
from tests.faults.evidence import Evidence, ViolationError, judge
from tests.faults.kinds import kinds_of, order_of

LIMIT_S = 60.0
"""No scenario waits for anything that long."""
SPIN = 100
"""Calls of one function beyond three times those of a run without a fault; the machine's other work moves that."""

THREADS = 2
"""That of the program, and faulthandler's, which watches it."""

Counts = dict[str, int]
_faults: Any = _native
"""Functions that only a build with the feature `faults` has."""

# A listener that has no descriptors left tries again after a second.
setattr(oneloop.loop, "ACCEPT_RETRY_DELAY_S", 0.01)  # noqa: B010 - to mypy it is a constant integer


@dataclass(frozen=True)
class Scenario:
    """A small whole program. `run` fills the evidence and returns when all of its sockets and files are closed."""

    name: str
    run: Callable[[Evidence], None]
    tolerated: tuple[type[BaseException], ...] = ()
    """Exceptions without the errno that follow from one with it."""
    most_damaged: int = 1
    """How many results one fault may concern: the streams of one HTTP/2 connection, the workers of a server."""


@dataclass(frozen=True)
class Case:
    """The calls of a function with numbers from `first` on fail, so many `times`."""

    call: str
    kind: str
    first: int
    times: int = 1

    def __str__(self) -> str:
        more = "" if self.times == 1 else f" (and the {self.times - 1} after it)"
        return f"{self.call} {self.first} → {self.kind}{more}"


@dataclass
class Seen:
    """What a child reports."""

    counts: Counts = field(default_factory=dict)
    fired: int = 0
    found: list[str] = field(default_factory=list)
    outcome: str = ""


def _descriptors() -> dict[str, str]:
    folder = "/proc/self/fd"
    found = {}
    for name in os.listdir(folder):
        try:
            found[name] = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue  # that of the list itself
    return found


def _leaks(before: dict[str, str]) -> list[str]:
    # A thread that is ending may still hold one.
    for _ in range(50):
        gc.collect()
        more = {name: to for name, to in _descriptors().items() if name not in before}
        threads = len(os.listdir("/proc/self/task")) - THREADS
        if not more and threads <= 0:
            return []
        time.sleep(0.002)
    found = [f"descriptors are left open: {sorted(more.values())}"] if more else []
    return [*found, f"{threads} threads are left"] if threads > 0 else found


def _spins(counts: Counts, usual: Counts | None) -> list[str]:
    if usual is None:
        return []
    return [
        f"{call} was called {count} times instead of {usual.get(call, 0)}"
        for call, count in counts.items()
        if count > 3 * usual.get(call, 0) + SPIN
    ]


def innermost(error: BaseException) -> str:
    """Return the name of the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].name if frames else ""


def perform(scenario: Scenario, case: Case | None, usual: Counts | None) -> Seen:
    """Run the scenario in this process."""
    before = _descriptors()
    evidence = Evidence()
    found: list[str] = []
    _faults._faults_start()
    if case is not None:
        _faults._faults_order(case.call, case.first, case.times, order_of(case.kind))
    try:
        scenario.run(evidence)
    except ViolationError as error:
        found.append(f"{error}")
    except BaseException as error:
        evidence.errors.append(error)
        evidence.raised = error
    counts, fired = _faults._faults_stop()
    for name, count in evidence.elsewhere.items():
        counts[name] = max(counts.get(name, 0), count)
        fired += case is not None and case.call == name and case.first <= count
    fired += case is not None and evidence.has_failed_elsewhere
    call, kind = (case.call, case.kind) if case else ("", "")
    verdict = judge(evidence, call, kind, fired=bool(fired), tolerated=scenario.tolerated, most=scenario.most_damaged)
    for error in evidence.errors:
        if verdict:
            verdict.append("".join(traceback.format_exception(error)))
    if isinstance(evidence.raised, OSError) and innermost(evidence.raised) == "run_forever":
        found.append("the error ends the loop")
    for error in evidence.errors:
        error.__traceback__ = None
    words = [f"{type(error).__name__}({error})" for error in evidence.errors]
    outcome = ", ".join(evidence.damaged + words + evidence.reports) or "right"
    evidence.errors.clear()
    evidence.raised = None
    found += verdict + _leaks(before) + _spins(counts, usual)
    return Seen(counts, fired, found, outcome)


def _child(scenario: Scenario, case: Case | None, usual: Counts | None, answer: int, log: int) -> None:
    """Never returns."""
    status = 1
    try:
        os.dup2(log, 2)
        faulthandler.enable(log)
        faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=log)
        seen = perform(scenario, case, usual)
        with open(answer, "wb") as stream:
            pickle.dump(seen, stream)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


@dataclass
class _Running:
    case: Case | None
    pid: int
    answer: int
    log: tempfile._TemporaryFileWrapper[bytes]
    began_s: float


def _start(scenario: Scenario, case: Case | None, usual: Counts | None) -> _Running:
    # Children need not look at what was there before.
    gc.freeze()
    if threading.active_count() != 1:
        raise RuntimeError(f"threads are left: {threading.enumerate()}")
    log = tempfile.TemporaryFile()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _child(scenario, case, usual, writing, log.fileno())
    os.close(writing)
    return _Running(case, pid, reading, log, time.monotonic())  # type: ignore[arg-type]


def _end(running: _Running) -> Seen:
    """Read the answer of a child that has closed its end of the pipe, and wait for the child."""
    with open(running.answer, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(running.pid, 0)
    running.log.seek(0)
    log = running.log.read().decode(errors="replace")
    running.log.close()
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and data:
        seen = pickle.loads(data)
        assert isinstance(seen, Seen)
        return seen
    if "Timeout (" in log:
        return Seen(fired=1, found=[f"it hangs:\n{log}"], outcome="hangs")
    how = signal.Signals(-code).name if code < 0 else f"status {code}"
    return Seen(fired=1, found=[f"it ends with {how}:\n{log}"], outcome="crashes")


def children(
    scenario: Scenario, cases: list[Case | None], usual: Counts | None, jobs: int
) -> Iterator[tuple[Case | None, Seen]]:
    """Run each case in a child, some of them at the same time."""
    waiting = cases[::-1]
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            started = _start(scenario, waiting.pop(), usual)
            running[started.answer] = started
        ready, _, _ = select.select(list(running), [], [], 1)
        for answer in ready:
            ended = running.pop(answer)
            yield ended.case, _end(ended)
        for late in list(running.values()):
            if time.monotonic() - late.began_s > LIMIT_S + 5:
                os.kill(late.pid, signal.SIGKILL)  # the watchdog itself hangs


def cases_of(counts: Counts, *, most: int, wrong: bool = False, calls: frozenset[str] | None = None) -> list[Case]:
    """All faults of all calls; of many calls of one function the first and the last ones and some between."""
    cases = []
    for call, count in sorted(counts.items()):
        if calls is not None and call not in calls:
            continue
        for number in _numbers(count, most):
            cases += [Case(call, kind, number) for kind in kinds_of(call, wrong=wrong)]
    return cases


def _numbers(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(1, count + 1))
    if most == 1:
        return [(count + 1) // 2]
    return sorted({1 + round(place * (count - 1) / (most - 1)) for place in range(most)})
