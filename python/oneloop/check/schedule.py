"""`Schedule`: which URL is checked next, and when: limits of each host, of the whole, and of the rate.

It knows no HTTP and has no clock of its own: the loop's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oneloop.check.options import Options
    from oneloop.check.result import Target

__all__ = ["Hold", "Job", "Schedule", "host_of"]

KEPT_HOSTS = 1000
"""So many hosts without work are remembered."""

IDLE_WINDOWS = 25
"""While workers are idle, up to this many windows of the input are read, to find hosts behind those that are busy."""


def host_of(url: str) -> str:
    """Host and port of a URL as far as they tell hosts apart; "" or anything else of what is no URL."""
    rest = url.partition("://")[2]
    for end in "/?#":
        rest = rest.partition(end)[0]
    return rest.rpartition("@")[2].lower()


class Hold(NamedTuple):
    """For how many seconds a host gets no requests: its URLs wait for `wait_s`, and are refused for `refused_s`."""

    wait_s: float
    refused_s: float


@dataclass(slots=True)
class Job:
    """A target on its way."""

    target: Target
    host: Host
    attempts: int = 0


@dataclass(slots=True)
class Host:
    """A server by its name and port."""

    name: str
    waiting: deque[Job] = field(default_factory=deque)
    under_way: int = 0
    resting: int = 0
    """Jobs that are tried again later."""
    not_before: float = 0.0
    """No request begins earlier, on the loop's clock."""
    refused_until: float = 0.0
    """The host asked for a longer pause than anybody waits for: until then its URLs are not requested at all."""
    is_due: bool = False
    """It stands among those that may begin, or among those that will."""


class Schedule:
    """Jobs come in by `add`, go out by `take`, and come back by `done` or `again`."""

    def __init__(self, options: Options, holds: Mapping[str, Hold]) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._hosts: dict[str, Host] = {}
        self._due: deque[Host] = deque()
        # When, a number that makes it unique, and whose time it is.
        self._later: list[tuple[float, int, Host | Job]] = []
        self._count = 0
        self._pending = 0
        self._is_closed = False
        self._is_stopped = False
        self.rest: list[Target] = []
        """What `stop` has left."""
        self._next_begin = 0.0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._adders: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._forget_at = 2 * KEPT_HOSTS
        self._window = max(4 * options.concurrency, 1000)
        now = self._loop.time()
        for name, held in holds.items():
            self._hosts[name] = Host(name, not_before=now + held.wait_s, refused_until=now + held.refused_s)

    async def add(self, target: Target) -> None:
        """Add a URL; waits while the window is full, unless workers are idle because of the hosts that are in it."""
        while not self._has_room():
            await self._wait(self._adders)
        if self._pending >= self._window:
            # Reading further ahead must not hold up the requests.
            await asyncio.sleep(0)
        if self._is_stopped:
            self.rest.append(target)
            return
        name = host_of(target.url)
        host = self._hosts.get(name)
        if host is None:
            self._forget_hosts()
            host = self._hosts[name] = Host(name)
        self._pending += 1
        host.waiting.append(Job(target, host))
        self._consider(host)

    def _has_room(self) -> bool:
        return self._pending < self._window or (bool(self._takers) and self._pending < IDLE_WINDOWS * self._window)

    def close(self) -> None:
        """There are no more."""
        self._is_closed = True
        if self._pending == 0:
            self._wake_all()

    def stop(self) -> None:
        """Those that were not begun with go to `rest`; what was, is done to its end."""
        self._is_stopped = True
        for host in self._hosts.values():
            self.rest += [job.target for job in host.waiting if job.attempts == 0]
            begun = deque(job for job in host.waiting if job.attempts)
            self._pending -= len(host.waiting) - len(begun)
            host.waiting = begun
        # Hosts that have no work any more.
        self._due = deque(host for host in self._due if host.waiting)
        for host in self._hosts.values():
            host.is_due = host.is_due and bool(host.waiting)
        self._later = [entry for entry in self._later if isinstance(entry[2], Job) or entry[2].waiting]
        heapify(self._later)
        while self._adders:
            _wake(self._adders)
        if self._is_closed and self._pending == 0:
            self._wake_all()

    async def take(self) -> Job | None:
        """The next one whose time has come; None once all are done."""
        while True:
            job = self._pop()
            if job is not None:
                job.attempts += 1
                return job
            if self._is_closed and self._pending == 0:
                return None
            if self._adders and self._pending < IDLE_WINDOWS * self._window:
                _wake(self._adders)
            await self._wait(self._takers)

    def done(self, job: Job) -> None:
        """The job has its result."""
        self._pending -= 1
        self._left(job.host)
        if self._adders:
            _wake(self._adders)
        if self._is_closed and self._pending == 0:
            self._wake_all()

    def again(self, job: Job, delay_s: float) -> None:
        """The job is tried again after a while."""
        job.host.resting += 1
        self._left(job.host)
        self._set_later(self._loop.time() + delay_s, job)

    def hold(self, host: Host, delay_s: float) -> None:
        """Send no request to the host for this time; its URLs are refused if that is more than `retry_after_s`."""
        when = self._loop.time() + delay_s
        if delay_s > self._options.retry_after_s:
            host.refused_until = max(host.refused_until, when)
        else:
            host.not_before = max(host.not_before, when)

    def refused_s(self, host: Host) -> float:
        """For how many more seconds the host's URLs are not to be requested."""
        return max(0.0, host.refused_until - self._loop.time()) if host.refused_until else 0.0

    def holds(self) -> dict[str, Hold]:
        """Hosts that must be left alone, and for how long."""
        now = self._loop.time()
        return {
            host.name: Hold(max(0.0, host.not_before - now), self.refused_s(host))
            for host in self._hosts.values()
            if max(host.not_before, host.refused_until) > now
        }

    def _left(self, host: Host) -> None:
        host.under_way -= 1
        self._consider(host)

    def _consider(self, host: Host) -> None:
        """Puts a host that has work in its place."""
        if host.is_due or not host.waiting or host.under_way >= self._options.per_host:
            return
        host.is_due = True
        if self._is_held(host):
            self._set_later(host.not_before, host)
        else:
            self._due.append(host)
            _wake(self._takers)

    def _is_held(self, host: Host) -> bool:
        now = self._loop.time()
        return host.not_before > now and not host.refused_until > now

    def _pop(self) -> Job | None:
        if self._later:
            self._bring()
        while self._due:
            host = self._due[0]
            if self._is_held(host):
                # A Retry-After came after the host had been put here.
                self._due.popleft()
                host.is_due = False
                self._consider(host)
                continue
            if not self.refused_s(host) and not self._begin(host):
                return None
            self._due.popleft()
            host.is_due = False
            job = host.waiting.popleft()
            host.under_way += 1
            self._consider(host)
            if self._due:
                _wake(self._takers)
            return job
        return None

    def _begin(self, host: Host) -> bool:
        """Whether a request may begin now. It then counts against the rate and the host's delay."""
        options = self._options
        if options.rate is not None:
            now = self._loop.time()
            if self._next_begin > now:
                self._set_timer(self._next_begin)
                return False
            # After a pause, requests that were not sent are not sent in a burst.
            self._next_begin = max(self._next_begin, now - 1 / options.rate) + 1 / options.rate
        if options.per_host_delay_s:
            host.not_before = max(host.not_before, self._loop.time() + options.per_host_delay_s)
        return True

    def _bring(self) -> None:
        """Those whose time has come."""
        now = self._loop.time()
        while self._later and self._later[0][0] <= now:
            _, _, item = heappop(self._later)
            if isinstance(item, Host):
                item.is_due = False
                self._consider(item)
            else:
                item.host.resting -= 1
                item.host.waiting.append(item)
                self._consider(item.host)
        if self._later:
            self._set_timer(self._later[0][0])

    def _set_later(self, when: float, item: Host | Job) -> None:
        self._count += 1
        heappush(self._later, (when, self._count, item))
        self._set_timer(self._later[0][0])

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._bring()
        _wake(self._takers)

    def _forget_hosts(self) -> None:
        if len(self._hosts) < self._forget_at:
            return
        now = self._loop.time()
        idle = [
            host.name
            for host in self._hosts.values()
            if not (host.waiting or host.under_way or host.resting or host.is_due)
            and max(host.not_before, host.refused_until) <= now
        ]
        for name in idle[: len(self._hosts) - KEPT_HOSTS]:
            del self._hosts[name]
        self._forget_at = 2 * max(len(self._hosts), KEPT_HOSTS)

    async def _wait(self, waiters: deque[asyncio.Future[None]]) -> None:
        waiter = self._loop.create_future()
        waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in waiters:
                waiters.remove(waiter)
            elif not waiter.cancelled():
                # It was woken and does not act on it: another may.
                _wake(waiters)
            raise

    def _wake_all(self) -> None:
        while self._takers:
            _wake(self._takers)


def _wake(waiters: deque[asyncio.Future[None]]) -> None:
    """Wakes one of them."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
