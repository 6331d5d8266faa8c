"""`Resolver`: the system's functions, called directly."""

from __future__ import annotations

from oneloop.green.resolver import AbstractResolver

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Calls the system's functions, which block the event loop. For programs that must not use threads."""
