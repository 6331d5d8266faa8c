"""`Parent`: owns the listening sockets, and starts, replaces and stops the workers that serve on them.

It imports neither the application nor the native core and has no loop and no threads. It therefore stays small, and can
fork at any time. Each worker has a place. When a worker is replaced, its successor starts to serve before the old one
stops accepting.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oneloop.http import forking
from oneloop.http.forking import Child, fork, reason_of
from oneloop.http.listeners import Listener, all_of
from oneloop.interrupts import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oneloop.http.measures import Board
    from oneloop.http.options import Options
    from oneloop.http.systemd import Notifier

__all__ = ["Parent"]

log = logging.getLogger("oneloop.error")

STARTUP_FAILURE = 3
# If a worker that has run for this long dies, its start was not the reason, so its successor starts immediately.
LONG_LIFE_S = 10.0
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0
# After this many consecutive failed starts of a worker, the parent stops everything.
MOST_FAILURES = 5
# Additional time after --timeout-graceful-shutdown, for the application's shutdown.
GRACE_S = 30.0
# Time that a worker has to end after a second signal.
FORCED_GRACE_S = 1.0
LONGEST_WAIT_S = 3600.0


@dataclass(eq=False, slots=True)
class Worker:
    """A worker's process."""

    child: Child
    row: int
    started_s: float
    is_ready: bool = False
    is_ending: bool = False
    kill_at_s: float | None = None
    is_killed: bool = False
    heard: bytes = b""
    # When to send the next ping; after a ping, when the worker counts as stuck. None: no pings.
    check_at_s: float | None = None
    is_asked: bool = False


@dataclass(eq=False, slots=True)
class Place:
    """The place of one worker. `successor` starts while `worker` still serves. Former workers are ending."""

    group: int
    worker: Worker | None = None
    successor: Worker | None = None
    start_at_s: float | None = None
    waits_for_end: bool = False
    """Its next worker starts when the one before has ended."""
    failures: int = 0


@dataclass(slots=True)
class Work:
    """The workers' task. `run` is called in the new process with its listeners, its channel and its row."""

    run: Callable[[Sequence[Listener], socket.socket, int], int]
    groups: list[list[Listener]]
    board: Board | None = None
    watch: Callable[[socket.socket], int] | None = None
    """For `--reload`: watches files in a separate process, and writes the changed paths to the channel."""


@dataclass(slots=True)
class _State:
    """The state of the parent. After SIGHUP it replaces the workers of all places one by one ("rolling")."""

    has_been_ready: bool = False
    endings: int = 0
    status: int = 0
    rolling: list[Place] = field(default_factory=list)
    is_rolling: bool = False


class Parent:
    """The parent of all workers.

    Args:
        options: the options.
        work: the workers' task.
        notifier: notifies the service manager.
    """

    def __init__(self, options: Options, work: Work, notifier: Notifier) -> None:
        self._options = options
        self._work = work
        self._notifier = notifier
        self._places = [Place(number % len(work.groups)) for number in range(options.worker_count)]
        self._workers: list[Worker] = []
        self._watcher: Child | None = None
        self._state = _State()
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._next_alive_s = 0.0

    def run(self) -> int:
        """Serve until a signal arrives, and return the exit status. Afterwards SIGINT and SIGTERM are ignored."""
        log.info("Started parent process [%d]", os.getpid())
        before = self._take_signals()
        try:
            if self._work.watch is not None:
                listening = [one.socket for one in all_of(self._work.groups)]
                self._watcher = fork(self._work.watch, [*self._own_sockets(), *listening])
                self._selector.register(self._watcher.channel, selectors.EVENT_READ, self._watcher)
            for place in self._places:
                place.worker = self._start(place)
            while self._workers or not self._state.endings:
                self._turn()
        finally:
            self._end_everything()
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                # The signals that end the parent can arrive again.
                is_end = number in (signal.SIGINT, signal.SIGTERM)
                signal.signal(number, signal.SIG_IGN if is_end else handler)
        log.info("Stopping parent process [%d]", os.getpid())
        return self._state.status

    def _take_signals(self) -> dict[signal.Signals, Any]:
        for one in (self._wake_in, self._wake_out):
            one.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        return {number: signal.signal(number, do_nothing) for number in forking.SIGNALS}

    def _own_sockets(self) -> list[socket.socket]:
        """Return the sockets that a child must close. Otherwise it could not detect the end of this process."""
        own = [self._wake_in, self._wake_out, *(worker.child.channel for worker in self._workers)]
        return [*own, self._watcher.channel] if self._watcher is not None else own

    # -- one iteration --------------------------------------------------------------------------------

    def _turn(self) -> None:
        heard = self._selector.select(self._timeout_s())
        # Signals first: a signal to the whole process group also ends workers, which must not be replaced then.
        self._take_arrived_signals()
        for key, _ in heard:
            if isinstance(key.data, Worker):
                self._hear(key.data)
            elif key.data is not None and key.data is self._watcher:
                self._hear_watcher()
        self._reap()
        self._do_what_is_due()

    def _take_arrived_signals(self) -> None:
        try:
            numbers = self._wake_in.recv(4096)
        except BlockingIOError:
            return
        for number in numbers:
            self._on_signal(number)

    def _do_what_is_due(self) -> None:
        now_s = time.monotonic()
        for worker in self._workers:
            if worker.kill_at_s is not None and now_s >= worker.kill_at_s:
                log.error("Worker [%d] did not stop in time: killing it.", worker.child.pid)
                worker.kill_at_s = None
                worker.is_killed = True
                worker.child.kill(signal.SIGKILL)
            if worker.check_at_s is not None and now_s >= worker.check_at_s:
                self._check(worker, now_s)
        for place in self._places:
            if place.start_at_s is not None and now_s >= place.start_at_s:
                self._fill(place)
        if self._notifier.watchdog_s is not None and now_s >= self._next_alive_s:
            self._next_alive_s = now_s + self._notifier.watchdog_s
            self._notifier.alive()

    def _check(self, worker: Worker, now_s: float) -> None:
        """Send a ping to a worker, or abort a worker that has not answered the last one."""
        if not worker.is_asked:
            worker.is_asked = True
            worker.child.tell(b"P")
            worker.check_at_s = now_s + self._options.timeout_worker_healthcheck
            return
        log.error(
            "Worker [%d] is stuck: its loop has not run for %g s (--timeout-worker-healthcheck). Aborting it.",
            worker.child.pid,
            self._options.timeout_worker_healthcheck,
        )
        worker.check_at_s = None
        # On SIGABRT, faulthandler prints the stacks of all threads.
        worker.child.kill(signal.SIGABRT)
        worker.kill_at_s = now_s + FORCED_GRACE_S

    def _timeout_s(self) -> float | None:
        deadlines = [worker.kill_at_s for worker in self._workers if worker.kill_at_s is not None]
        deadlines += [worker.check_at_s for worker in self._workers if worker.check_at_s is not None]
        deadlines += [place.start_at_s for place in self._places if place.start_at_s is not None]
        if self._notifier.watchdog_s is not None:
            deadlines.append(self._next_alive_s)
        # The user can set arbitrarily long timeouts, but select(2), epoll_wait(2) etc. have a limit.
        return min(max(min(deadlines) - time.monotonic(), 0), LONGEST_WAIT_S) if deadlines else None

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            is_again = self._state.endings > 0
            if is_again and number == signal.SIGTERM:
                # Supervisors send it more than once.
                return
            name = signal.Signals(number).name
            log.info("Received %s, %s.", name, "exiting immediately" if is_again else "exiting")
            self._end(0)
        elif self._state.endings:
            return
        elif number == signal.SIGHUP:
            log.info("Received SIGHUP, replacing the workers one by one.")
            self._roll()
        elif number == signal.SIGTTIN:
            self._add_place()
        elif number == signal.SIGTTOU:
            self._remove_place()

    # -- starting and replacing -----------------------------------------------------------------------

    def _start(self, place: Place) -> Worker:
        taken = {worker.row for worker in self._workers}
        row = next(number for number in range(len(taken) + 1) if number not in taken)
        own = self._own_sockets()
        listeners = self._work.groups[place.group]
        others = [one.socket for group in self._work.groups if group is not listeners for one in group]

        def work(channel: socket.socket) -> int:
            self._selector.close()
            self._notifier.close()
            return self._work.run(listeners, channel, row)

        worker = Worker(fork(work, [*own, *others]), row, time.monotonic())
        self._workers.append(worker)
        self._selector.register(worker.child.channel, selectors.EVENT_READ, worker)
        return worker

    def _fill(self, place: Place) -> None:
        """Start the worker of an empty place, or the successor of its worker."""
        place.start_at_s, place.waits_for_end = None, False
        if self._state.endings or place not in self._places:
            return
        if place.worker is None:
            place.worker = self._start(place)
        elif place.successor is None:
            place.successor = self._start(place)

    def _roll(self) -> None:
        self._notifier.reloading()
        self._state.is_rolling = True
        self._state.rolling = list(self._places)
        self._roll_next()

    def _roll_next(self) -> None:
        """Start the next successor, if none is starting."""
        if any(place.successor is not None or not _is_ready(place) for place in self._places):
            return
        while self._state.rolling:
            place = self._state.rolling.pop(0)
            if place in self._places:
                self._fill(place)
                return
        if self._state.is_rolling:
            self._state.is_rolling = False
            self._tell_ready()

    def _add_place(self) -> None:
        if self._options.reuse_port:
            log.warning("Received SIGTTIN: with --reuse-port the number of workers cannot be changed.")
            return
        place = Place(0)
        self._places.append(place)
        log.info("Received SIGTTIN, increasing the number of workers to %d.", len(self._places))
        self._fill(place)

    def _remove_place(self) -> None:
        if self._options.reuse_port or len(self._places) == 1:
            is_fixed = self._options.reuse_port
            why = "with --reuse-port the number of workers cannot be changed" if is_fixed else "it is the last worker"
            log.warning("Received SIGTTOU: %s.", why)
            return
        place = self._places.pop()
        log.info("Received SIGTTOU, decreasing the number of workers to %d.", len(self._places))
        for worker in (place.worker, place.successor):
            if worker is not None:
                self._finish(worker, b"F")
        if self._state.is_rolling:
            # It may be the last one whose successor was waited for.
            self._roll_next()

    # -- messages of workers --------------------------------------------------------------------------

    def _hear(self, worker: Worker) -> None:
        try:
            words = worker.child.channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if not words:
            self._selector.unregister(worker.child.channel)
            return
        *lines, worker.heard = (worker.heard + words).split(b"\n")
        place = self._place_of(worker)
        for line in lines:
            if line == b"ready":
                self._plan_check(worker)
                self._on_ready(worker, place)
            elif line == b"alive":
                self._plan_check(worker)
            elif line == b"over":
                # Its loop has ended, so it cannot answer pings.
                worker.check_at_s = None
            elif line == b"short":
                self._pass_on(worker)
            elif place is not None and worker is place.worker and place.successor is None:
                # A worker asks again after a while, in case that its successor has failed to start.
                why = line.decode(errors="replace").removeprefix("replace ")
                log.info("Replacing worker [%d]: %s.", worker.child.pid, why)
                self._fill(place)

    def _pass_on(self, worker: Worker) -> None:
        """Tell the other workers that connections may wait of which the kernel has told only this one."""
        for other in self._workers:
            if other is not worker and other.is_ready:
                other.child.tell(b"A")

    def _plan_check(self, worker: Worker) -> None:
        worker.is_asked = False
        timeout_s = self._options.timeout_worker_healthcheck
        # No pings to a worker that is being killed, nor with --reload, where a debugger may have stopped it.
        if timeout_s and self._work.watch is None and (worker.check_at_s is not None or not worker.is_ready):
            worker.check_at_s = time.monotonic() + timeout_s / 2

    def _on_ready(self, worker: Worker, place: Place | None) -> None:
        worker.is_ready = True
        if place is None or self._state.endings:
            # It was told to end while it was starting.
            self._finish(worker, b"F")
            return
        if worker is place.successor:
            old, place.worker, place.successor = place.worker, worker, None
            if old is not None:
                self._finish(old, b"F")
        if self._state.is_rolling:
            self._roll_next()
        if not self._state.has_been_ready and all(one.worker and one.worker.is_ready for one in self._places):
            self._state.has_been_ready = True
            for listener in all_of(self._work.groups):
                listener.unlock()
            for listener in self._work.groups[0]:
                log.info("oneloop running on %s (Press CTRL+C to quit)", listener.shown)
            self._tell_ready()

    def _hear_watcher(self) -> None:
        assert self._watcher is not None
        data = self._watcher.channel.recv(65536)
        if not data:
            self._selector.unregister(self._watcher.channel)
        if self._state.endings:
            return
        if not data:
            log.error("The process that watches files has died: changes no longer reload the application. Restart it.")
            return
        changed = sorted(set(data.decode(errors="backslashreplace").split("\n")) - {""})
        log.warning("Detected changes in %s. Reloading...", ", ".join(map(repr, changed)))
        place = self._places[0]
        place.failures = 0
        # A successor was started before the change too.
        old, place.worker, place.successor = (place.worker, place.successor), None, None
        for worker in old:
            if worker is not None:
                self._finish(worker, b"F")
        place.waits_for_end = old != (None, None)
        if not place.waits_for_end:
            self._fill(place)

    def _tell_ready(self) -> None:
        self._notifier.ready(f"{len(self._places)} worker(s) serve")

    # -- stopping -------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for worker in list(self._workers):
            status = worker.child.poll()
            if status is None:
                continue
            # Read messages that arrived together with its end.
            if worker.child.channel in self._selector.get_map():
                self._hear(worker)
            if worker.child.channel in self._selector.get_map():
                self._selector.unregister(worker.child.channel)
            worker.child.channel.close()
            self._workers.remove(worker)
            self._pass_on(worker)
            if self._work.board is not None:
                self._work.board.clear(worker.row)
            self._on_death(worker, status)

    def _on_death(self, worker: Worker, status: int) -> None:
        place = self._place_of(worker)
        pid, reason = worker.child.pid, reason_of(status, is_killed=worker.is_killed)
        if worker.is_ending or self._state.endings:
            log.info("Worker [%d] %s.", pid, reason)
            if self._places[0].waits_for_end:
                self._fill(self._places[0])
            return
        if place is None:
            return
        if worker is place.successor:
            place.successor = None
            self._on_failed_successor(place, pid, reason)
            return
        place.worker, place.successor = place.successor, None
        if place.worker is not None:
            log.error("Worker [%d] %s; its successor is already starting.", pid, reason)
            return
        if worker.is_ready:
            is_old = time.monotonic() - worker.started_s >= LONG_LIFE_S
            place.failures = 0 if is_old else place.failures + 1
            delay_s = 0.0 if place.failures <= 1 else self._delay_s(place)
            log.error("Worker [%d] %s; its successor starts %s.", pid, reason, _in(delay_s))
            place.start_at_s = time.monotonic() + delay_s
            return
        self._on_failed_start(place, pid, reason)

    def _on_failed_start(self, place: Place, pid: int, reason: str) -> None:
        if self._work.watch is not None:
            log.error("Worker [%d] failed to start: it %s. The next change of a file starts it again.", pid, reason)
            return
        place.failures += 1
        if not self._state.has_been_ready or place.failures >= MOST_FAILURES:
            log.error("Worker [%d] failed to start: it %s. Stopping the parent process.", pid, reason)
            self._end(STARTUP_FAILURE)
            return
        delay_s = self._delay_s(place)
        log.error("Worker [%d] failed to start: it %s; the next one starts %s.", pid, reason, _in(delay_s))
        place.start_at_s = time.monotonic() + delay_s

    def _on_failed_successor(self, place: Place, pid: int, reason: str) -> None:
        if self._state.is_rolling:
            log.error("Worker [%d] failed to start: it %s. The remaining workers are not replaced.", pid, reason)
            self._state.rolling.clear()
            self._roll_next()
            return
        place.failures += 1
        delay_s = self._delay_s(place)
        log.error("Worker [%d] failed to start: it %s; the next one starts %s.", pid, reason, _in(delay_s))
        place.start_at_s = time.monotonic() + delay_s

    def _delay_s(self, place: Place) -> float:
        return float(min(FIRST_DELAY_S * 2.0 ** (place.failures - 1), LONGEST_DELAY_S))

    def _end(self, status: int) -> None:
        """Stop all workers gracefully; on a second call, immediately."""
        self._state.endings += 1
        is_forced = self._state.endings > 1
        if not is_forced:
            self._state.status = status
            self._notifier.stopping()
            for listener in all_of(self._work.groups):
                listener.close()
        for worker in self._workers:
            self._finish(worker, b"N" if is_forced else b"L", FORCED_GRACE_S if is_forced else None)

    def _finish(self, worker: Worker, word: bytes, timeout_s: float | None = None) -> None:
        """Tell a worker to end, and set the time after which it is killed."""
        worker.is_ending = True
        worker.child.tell(word)
        if not worker.is_ready:
            # It may not yet read its channel.
            worker.child.kill(signal.SIGTERM)
        if timeout_s is None and self._options.timeout_graceful_shutdown is not None:
            timeout_s = self._options.timeout_graceful_shutdown + GRACE_S
        if timeout_s is not None:
            worker.kill_at_s = time.monotonic() + timeout_s

    def _end_everything(self) -> None:
        for listener in all_of(self._work.groups):
            listener.close()
        for worker in self._workers:
            # There are workers left only after an exception in this process. They end when their channel is closed.
            worker.child.channel.close()
        if self._watcher is not None:
            self._watcher.channel.close()
            os.waitpid(self._watcher.pid, 0)
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _place_of(self, worker: Worker) -> Place | None:
        return next((one for one in self._places if worker in (one.worker, one.successor)), None)


def _is_ready(place: Place) -> bool:
    return place.worker is None or place.worker.is_ready


def _in(delay_s: float) -> str:
    return f"in {delay_s:g} s" if delay_s else "immediately"
