"""`Schedule`: decides which URL is requested next and when, with limits per host, in total, and on the rate.

It contains no HTTP code. Times are those of the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oneloop.check.options import Options
    from oneloop.check.result import Target

__all__ = ["Hold", "Job", "Schedule", "host_of"]

KEPT_HOSTS = 1000
"""When hosts without URLs in progress are removed from time to time, this many hosts are kept."""

IDLE_WINDOWS = 25
"""While workers are idle, up to this many windows of the input are read ahead, to find URLs of other hosts."""


def host_of(url: str) -> str:
    """Return host and port of a URL, as a key for the limits per host. For a text that is not a URL, any string."""
    rest = url.partition("://")[2]
    for end in "/?#":
        rest = rest.partition(end)[0]
    return rest.rpartition("@")[2].lower()


class Hold(NamedTuple):
    """How long a host gets no requests: its URLs wait for `wait_s` seconds, or are refused for `refused_s` seconds."""

    wait_s: float
    refused_s: float


@dataclass(slots=True)
class Job:
    """A target, its host, and the number of attempts so far."""

    target: Target
    host: Host
    attempts: int = 0


@dataclass(slots=True)
class Host:
    """The state of a server, which is identified by its name and port."""

    name: str
    waiting: deque[Job] = field(default_factory=deque)
    under_way: int = 0
    resting: int = 0
    """Jobs that wait for a retry."""
    not_before: float = 0.0
    """No request starts before this time of the loop's clock."""
    refused_until: float = 0.0
    """The host asked for a pause longer than the limit: until this time its URLs are refused without a request."""
    is_due: bool = False
    """Whether the host is in one of the two queues of the schedule, `_due` and `_later`."""


class Schedule:
    """The queue of URLs. `add` puts one in, `take` takes a job out; then `done` or `again` must be called for the job.

    Args:
        options: the limits.
        holds: hosts that get no requests at first, and for how long.
    """

    def __init__(self, options: Options, holds: Mapping[str, Hold]) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._hosts: dict[str, Host] = {}
        self._due: deque[Host] = deque()
        # A heap of (time, unique number, host that may get requests or job that may be retried at this time).
        self._later: list[tuple[float, int, Host | Job]] = []
        self._count = 0
        self._pending = 0
        self._is_closed = False
        self._is_stopped = False
        self.rest: list[Target] = []
        """The targets that `stop` kept from being started."""
        self._next_begin = -inf
        self._is_rate_waited_for = False
        """Whether a request could have started before, but for the rate."""
        self._takers: deque[asyncio.Future[None]] = deque()
        self._adders: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._forget_at = 2 * KEPT_HOSTS
        self._window = max(4 * options.concurrency, 1000)
        now = self._loop.time()
        for name, held in holds.items():
            self._hosts[name] = Host(name, not_before=now + held.wait_s, refused_until=now + held.refused_s)

    async def add(self, target: Target) -> None:
        """Add a URL. Waits while the window is full, unless workers are idle because all hosts in it must wait."""
        while not self._has_room():
            await self._wait(self._adders)
        if self._pending >= self._window:
            # Reading further ahead must not delay the requests.
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
        """Declare that no more URLs will be added."""
        self._is_closed = True
        if self._pending == 0:
            self._wake_all()

    def stop(self) -> None:
        """Start no further URLs and move them to `rest`. URLs that were started are finished, with their retries."""
        self._is_stopped = True
        for host in self._hosts.values():
            self.rest += [job.target for job in host.waiting if job.attempts == 0]
            begun = deque(job for job in host.waiting if job.attempts)
            self._pending -= len(host.waiting) - len(begun)
            host.waiting = begun
        # Remove the hosts that have no URLs left.
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
        """Wait for the next job that may start, and return it. Returns None when all jobs are done."""
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
        """Declare that the job has its result."""
        self._pending -= 1
        self._left(job.host)
        if self._adders:
            _wake(self._adders)
        if self._is_closed and self._pending == 0:
            self._wake_all()

    def again(self, job: Job, delay_s: float) -> None:
        """Put a job back, to be retried after `delay_s` seconds."""
        job.host.resting += 1
        self._left(job.host)
        self._set_later(self._loop.time() + delay_s, job)

    def hold(self, host: Host, delay_s: float) -> None:
        """Send no request to the host for this time. If it is longer than the limit, the host's URLs are refused."""
        when = self._loop.time() + delay_s
        if delay_s > self._options.retry_after_s:
            host.refused_until = max(host.refused_until, when)
        else:
            host.not_before = max(host.not_before, when)

    def refused_s(self, host: Host) -> float:
        """Return for how many more seconds the host's URLs are refused."""
        return max(0.0, host.refused_until - self._loop.time()) if host.refused_until else 0.0

    def holds(self) -> dict[str, Hold]:
        """Return the hosts that must not get requests now, and for how long."""
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
        """Put a host that may start another job into the right queue."""
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
                # A Retry-After arrived after the host had been put into this queue.
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
        """Whether a request may start now. If so, it is counted for the rate and the host's delay."""
        options = self._options
        if options.rate is not None:
            now = self._loop.time()
            if self._next_begin > now:
                self._set_timer(self._next_begin)
                self._is_rate_waited_for = True
                return False
            # A request that starts late does not move the next one. After a pause there is no burst of requests.
            is_late = self._is_rate_waited_for or now - self._next_begin < 1 / options.rate
            oldest = now - 1 / options.rate if is_late else now
            self._next_begin = max(self._next_begin, oldest) + 1 / options.rate
            self._is_rate_waited_for = False
        if options.per_host_delay_s:
            host.not_before = max(host.not_before, self._loop.time() + options.per_host_delay_s)
        return True

    def _bring(self) -> None:
        """Move the hosts and jobs whose time has come from `_later` to where `take` finds them."""
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
                # It was woken and cancelled at the same time: wake another one instead.
                _wake(waiters)
            raise

    def _wake_all(self) -> None:
        while self._takers:
            _wake(self._takers)


def _wake(waiters: deque[asyncio.Future[None]]) -> None:
    """Wake one waiter."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
