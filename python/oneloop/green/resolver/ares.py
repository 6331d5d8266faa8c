"""`Resolver`: queries name servers with c-ares.

Requires the pycares package, version 5 or later, which waits in its own thread.
"""

from __future__ import annotations

import socket as _stock
from typing import TYPE_CHECKING, Any

import pycares

from oneloop.green.hub import Waiter, get_hub
from oneloop.green.resolver.lookup import LookupResolver

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Resolver"]

_NO_SUCH_NAME = frozenset(
    (pycares.errno.ARES_ENODATA, pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENONAME, pycares.errno.ARES_EBADNAME)
)


class Resolver(LookupResolver):
    """A resolver based on c-ares. Options as in `pycares.Channel`: `servers`, `timeout` (seconds), `tries` etc."""

    def __init__(self, hub: Any = None, **options: Any) -> None:
        self.channel = pycares.Channel(**options)

    def close(self) -> None:
        """Cancel all queries. Their callers get an error."""
        self.channel.cancel()
        self.channel.close()

    def addresses(self, name: str, family: int) -> tuple[str, list[str]]:
        """Implements `LookupResolver.addresses`."""
        found = _asked(
            lambda told: self.channel.getaddrinfo(
                name, None, family=_stock.AddressFamily(family), type=_stock.SOCK_STREAM, callback=told
            )
        )
        nodes = [node.addr[0] for node in found.nodes] if found is not None else []
        if found is None or not nodes:
            raise _stock.gaierror(_stock.EAI_NONAME, "Name or service not known")
        canonical = found.cnames[-1].name if found.cnames else name
        return _as_text(canonical), [_as_text(node) for node in nodes]

    def names(self, address: str) -> list[str]:
        """Implements `LookupResolver.names`."""
        found = _asked(lambda told: self.channel.gethostbyaddr(address.partition("%")[0], callback=told))
        return [] if found is None else list(dict.fromkeys(map(_as_text, (found.name, *found.aliases))))


def _as_text(name: str | bytes) -> str:
    return name.decode("ascii") if isinstance(name, bytes) else name


def _asked(ask: Callable[[Callable[[Any, int | None], None]], object]) -> Any:
    """Make a query and return its result; None if there is no such name."""
    waiter = Waiter(get_hub())

    def told(result: Any, error: int | None) -> None:
        # Called in the thread of pycares.
        waiter.wake((result, error))

    ask(told)
    result, error = waiter.get()
    if not error:
        return result
    if error in _NO_SUCH_NAME:
        return None
    reason = pycares.errno.strerror(error)
    shown = reason.decode() if isinstance(reason, bytes) else reason
    raise _stock.gaierror(_stock.EAI_AGAIN, f"Temporary failure in name resolution: {shown}")
