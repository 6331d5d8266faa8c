"""Faults at a low rate: in each round of the soak a few system calls fail, at random (tests/faults)."""

from __future__ import annotations

import random
from typing import Any

from oneloop import _native
from tests.faults.kinds import is_transient, kinds_of, order_of

_NOT_AGAIN = {"ENOSYS", "EPERM", "EOPNOTSUPP"}
"""After them oneloop does without the call for the rest of the process, so that nothing more would be tried."""


class FewFaults:
    """Orders the faults of a round, and says how many of them have happened."""

    def __init__(self, rate: int, seed: int) -> None:
        self.rate = rate
        self.random = random.Random(seed)
        self.native: Any = _native
        self.happened = 0
        self._usual: dict[str, int] = {}
        self.ordered: list[str] = []
        self.harmful = 0
        """Of those ordered in this round, how many may be noticed."""

    @staticmethod
    def is_there() -> bool:
        """Whether the extension was built with the feature."""
        return hasattr(_native, "_faults_start")

    def begin(self) -> None:
        """Before a round. Before the first one, nothing is ordered: the calls are counted."""
        if not self.rate:
            return
        self.native._faults_start()
        self.ordered.clear()
        self.harmful = 0
        names = [name for name in self._usual if not name.startswith(("epoll_create", "io_setup", "io_uring_setup"))]
        for _ in range(min(self.rate, len(names))):
            name = self.random.choice(names)
            kind = self.random.choice([kind for kind in kinds_of(name) if kind not in _NOT_AGAIN] or ["EINTR"])
            number = self.random.randint(1, self._usual[name])
            self.native._faults_order(name, number, 1, order_of(kind))
            self.ordered.append(f"{name} {number} → {kind}")
            self.harmful += not is_transient(name, kind)

    def end(self) -> int:
        """After a round. Return how many faults have happened in it."""
        if not self.rate:
            return 0
        counts, fired = self.native._faults_stop()
        self._usual = {name: count for name, count in counts.items() if count and kinds_of(name)}
        self.happened += fired
        return int(fired)
