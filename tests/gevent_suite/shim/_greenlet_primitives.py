"""What gevent's test helpers need of its private `_greenlet_primitives`."""

from __future__ import annotations

import gc

from greenlet import greenlet

__all__ = ["get_reachable_greenlets"]


def get_reachable_greenlets() -> list[greenlet]:
    """Return all greenlets that the garbage collector knows."""
    return [one for one in gc.get_objects() if issubclass(type(one), greenlet)]
