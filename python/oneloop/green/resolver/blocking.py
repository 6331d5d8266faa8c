"""`Resolver`: the system's functions, called as they are."""

from __future__ import annotations

from oneloop.green.resolver import AbstractResolver

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Asks the system; everybody waits meanwhile. For programs that may have no threads."""
