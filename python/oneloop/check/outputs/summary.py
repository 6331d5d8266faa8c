"""What the page of HTML is made of: sums over results, in memory that is bounded however many come.

Times go into buckets, 8 for each doubling: a percentile is off by at most 5 %. Failures: the first few of each
outcome. Hosts: when there are twice HOSTS, the faster half is forgotten; one that comes again then starts from zero.
"""

from __future__ import annotations

import math
from heapq import nsmallest
from itertools import accumulate
from typing import TYPE_CHECKING

from oneloop.check.counts import Counts
from oneloop.check.schedule import host_of

if TYPE_CHECKING:
    from oneloop.check.result import Result

__all__ = ["EDGES_S", "Failure", "Host", "Latencies", "Summary"]

HOSTS = 5000
SLOWEST = 20
"""So many hosts are shown."""

FAILURES_EACH = 20
FAILURES = 300
"""So many failures are shown, and of each outcome FAILURES_EACH."""

URL_CHARACTERS = 2000
TEXT_CHARACTERS = 300
_HOST_CHARACTERS = 255

EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Where the bars of the histogram end; the last one has no end."""

_SMALLEST_S = 1e-5
_PER_DOUBLING = 8
_BUCKETS = 28 * _PER_DOUBLING  # up to 2,600 seconds


class Latencies:
    """How long answers took."""

    __slots__ = ("_buckets", "bars", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bars = [0] * (len(EDGES_S) + 1)
        self._buckets = [0] * _BUCKETS

    def add(self, seconds: float) -> None:
        """Note one."""
        self.count += 1
        bar = 0
        while bar < len(EDGES_S) and seconds > EDGES_S[bar]:
            bar += 1
        self.bars[bar] += 1
        place = int(math.log2(seconds / _SMALLEST_S) * _PER_DOUBLING) if seconds > _SMALLEST_S else 0
        self._buckets[min(place, _BUCKETS - 1)] += 1

    def percentile(self, percent: float) -> float | None:
        """In how many seconds so many of a hundred were there; None if there was none."""
        wanted = math.ceil(self.count * percent / 100)
        if not wanted:
            return None
        place = next(place for place, seen in enumerate(accumulate(self._buckets)) if seen >= wanted)
        return _SMALLEST_S * math.exp2((place + 0.5) / _PER_DOUBLING)


class Host:
    """What a host's URLs took."""

    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0

    @property
    def mean_s(self) -> float:
        """On average."""
        return self.total_s / self.count


class Failure:
    """A URL that had an error, or a status from 400 on; its texts are shortened."""

    __slots__ = ("outcome", "text", "url")

    def __init__(self, result: Result) -> None:
        self.outcome = result.outcome
        self.url = result.url[:URL_CHARACTERS]
        self.text = result.error_text[:TEXT_CHARACTERS]


class Summary:
    """All of that; `add` takes a result."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.latencies = Latencies()
        self.failures: list[Failure] = []
        self.failed = 0
        self.forgotten_hosts = 0
        self._hosts: dict[str, Host] = {}
        self._failed_by: dict[str, int] = {}

    def add(self, result: Result) -> None:
        """Note a result."""
        self.counts.add(result)
        if result.error is None:
            self.latencies.add(result.total_s)
        if result.error is not None or (result.status or 0) >= 400:
            self._add_failure(result)
        self._add_host(result)

    def slowest(self) -> list[tuple[str, Host]]:
        """The hosts that took longest on average."""
        return nsmallest(SLOWEST, self._hosts.items(), key=lambda item: (-item[1].mean_s, item[0]))

    def _add_failure(self, result: Result) -> None:
        self.failed += 1
        known = self._failed_by.get(result.outcome, 0)
        if known < FAILURES_EACH and len(self.failures) < FAILURES:
            self._failed_by[result.outcome] = known + 1
            self.failures.append(Failure(result))

    def _add_host(self, result: Result) -> None:
        name = host_of(result.url)[:_HOST_CHARACTERS]
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) >= 2 * HOSTS:
                self._forget_fast_hosts()
            host = self._hosts[name] = Host()
        host.count += 1
        host.total_s += result.total_s
        host.longest_s = max(host.longest_s, result.total_s)

    def _forget_fast_hosts(self) -> None:
        ordered = sorted(self._hosts.items(), key=lambda item: item[1].mean_s, reverse=True)
        self.forgotten_hosts += len(ordered) - HOSTS
        self._hosts = dict(ordered[:HOSTS])
