"""`Summary`: the numbers on the HTML page, in a bounded amount of memory.

Times are counted in buckets, 8 per doubling, so a percentile is off by at most 5 %. Of the failures, the first few of
each outcome are kept. When there are twice HOSTS hosts, the faster half is dropped; a dropped host that occurs again
starts from zero.
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
"""The number of hosts on the page."""

FAILURES_EACH = 20
FAILURES = 300
"""The most failures on the page; of each outcome, FAILURES_EACH."""

URL_CHARACTERS = 2000
TEXT_CHARACTERS = 300
_HOST_CHARACTERS = 255

EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""The upper limits of the histogram's bars; a further bar has no limit."""

_SMALLEST_S = 1e-5
_PER_DOUBLING = 8
_BUCKETS = 28 * _PER_DOUBLING  # up to 2,600 seconds


class Latencies:
    """The distribution of the response times."""

    __slots__ = ("_buckets", "bars", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bars = [0] * (len(EDGES_S) + 1)
        self._buckets = [0] * _BUCKETS

    def add(self, seconds: float) -> None:
        """Count a response time."""
        self.count += 1
        bar = 0
        while bar < len(EDGES_S) and seconds > EDGES_S[bar]:
            bar += 1
        self.bars[bar] += 1
        place = int(math.log2(seconds / _SMALLEST_S) * _PER_DOUBLING) if seconds > _SMALLEST_S else 0
        self._buckets[min(place, _BUCKETS - 1)] += 1

    def percentile(self, percent: float) -> float | None:
        """Return the time in seconds within which this percentage of the responses was complete; None without any."""
        wanted = math.ceil(self.count * percent / 100)
        if not wanted:
            return None
        place = next(place for place, seen in enumerate(accumulate(self._buckets)) if seen >= wanted)
        return _SMALLEST_S * math.exp2((place + 0.5) / _PER_DOUBLING)


class Host:
    """The number of a host's URLs, and how long they took."""

    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0

    @property
    def mean_s(self) -> float:
        """The mean time of a URL."""
        return self.total_s / self.count


class Failure:
    """A URL with an error or a status of at least 400. Its texts are shortened."""

    __slots__ = ("outcome", "text", "url")

    def __init__(self, result: Result) -> None:
        self.outcome = result.outcome
        self.url = result.url[:URL_CHARACTERS]
        self.text = result.error_text[:TEXT_CHARACTERS]


class Summary:
    """Counts, latencies, hosts and failures of the results that were added."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.latencies = Latencies()
        self.failures: list[Failure] = []
        self.failed = 0
        self.forgotten_hosts = 0
        self._hosts: dict[str, Host] = {}
        self._failed_by: dict[str, int] = {}

    def add(self, result: Result) -> None:
        """Add a result."""
        self.counts.add(result)
        if result.error is None:
            self.latencies.add(result.total_s)
        if result.error is not None or (result.status or 0) >= 400:
            self._add_failure(result)
        self._add_host(result)

    def slowest(self) -> list[tuple[str, Host]]:
        """Return the hosts with the longest mean times, longest first."""
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
