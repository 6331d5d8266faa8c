"""`Idents`: small numbers for objects, without keeping the objects alive. A freed object's number is reused."""

from __future__ import annotations

import heapq
import weakref
from typing import Any

__all__ = ["Idents"]


class Idents:
    """Numbers objects; for one thread. Its length is the number of objects that have a number."""

    def __init__(self) -> None:
        self._given: dict[weakref.ref[Any], int] = {}
        self._free: list[int] = []

    def get_ident(self, of: Any) -> int:
        """Return the object's number, which stays the same during its lifetime."""
        key = weakref.ref(of, self._give_back)
        number = self._given.get(key)
        if number is None:
            number = heapq.heappop(self._free) if self._free else len(self._given)
            self._given[key] = number
        return number

    def _give_back(self, key: weakref.ref[Any]) -> None:
        number = self._given.pop(key, None)
        if number is not None:
            heapq.heappush(self._free, number)

    def __len__(self) -> int:
        return len(self._given)
