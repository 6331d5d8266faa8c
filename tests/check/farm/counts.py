"""What the farm has seen: connections, requests, and per host how many at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REMEMBERED = "/echo"
"""The headers of requests for paths that begin so are kept."""


class Counts:
    """Totals since the start, or since `clear`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.connections: Counter[str] = Counter()
        self.addresses: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.targets: Counter[str] = Counter()
        self.hosts: dict[str, list[int]] = {}
        self.open_requests = 0
        self.most_requests = 0
        self.headers: dict[str, list[dict[str, str]]] = {}

    @contextmanager
    def request(self, listener: str, method: str, host: str, target: str, headers: dict[str, str]) -> Iterator[None]:
        """Counts a request, and that it is being answered while the context lasts."""
        self.requests[listener] += 1
        self.targets[f"{method} {target}"] += 1
        if target.startswith(REMEMBERED):
            self.headers.setdefault(f"{host}{target}", []).append(headers)
        # Requests, of these under way, most of these at a time.
        of_host = self.hosts.setdefault(host, [0, 0, 0])
        of_host[0] += 1
        of_host[1] += 1
        of_host[2] = max(of_host[1:])
        self.open_requests += 1
        self.most_requests = max(self.most_requests, self.open_requests)
        try:
            yield
        finally:
            of_host[1] -= 1
            self.open_requests -= 1

    def as_json(self) -> dict[str, Any]:
        return {
            "connections": self.connections,
            "addresses": self.addresses,
            "requests": self.requests,
            "targets": self.targets,
            "hosts": {host: {"requests": found[0], "at_once": found[2]} for host, found in self.hosts.items()},
            "at_once": self.most_requests,
            "headers": self.headers,
        }
