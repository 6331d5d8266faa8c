"""`Resolver`: resolves names with c-ares and caches the addresses for the time that the name server gives (TTL)."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pycares

from oneloop.addresses import address_of
from oneloop.waiting import shielded

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.check.options import Options
    from oneloop.check.phases import Phases

__all__ = ["FAMILIES", "NameNotFoundError", "Resolver"]

_MOST_NAMES = 65536
_MOST_ASKED = 8192
"""The most lookups of one channel: its cache keeps 2 KB for each, and pycares cannot limit this cache."""
_NO_SUCH_NAME = (
    pycares.errno.ARES_ENODATA,
    pycares.errno.ARES_ENOTFOUND,
    pycares.errno.ARES_ENONAME,
    pycares.errno.ARES_EBADNAME,
)
FAMILIES = {None: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}
"""The address family for each value of the option `family`."""

Addresses = tuple[tuple[socket.AddressFamily, str], ...]


class NameNotFoundError(OSError):
    """The name does not exist, or it has no address."""


class Resolver:
    """Resolves names with c-ares. Concurrent calls for the same name share one lookup.

    Args:
        options: how to check.
    """

    def __init__(self, options: Options) -> None:
        self._version = options.family
        self._family = FAMILIES[options.family]
        self._servers = list(options.dns_servers) or None
        self._channel: _Channel | None = None
        # By name: the addresses, and the time at which they expire.
        self._known: dict[str, tuple[Addresses, float]] = {}
        self._lookups: dict[str, asyncio.Task[Addresses]] = {}

    async def resolve(self, host: str, port: int, phases: Phases) -> list[tuple[int, Any]]:
        """Resolve a name.

        Args:
            host: the name.
            port: put into the addresses.
            phases: get the time of the lookup, if one was needed.

        Returns:
            The families and addresses as sockets take them, at least one.

        Raises:
            OSError: the lookup failed; it has no errno.
            NameNotFoundError: the name does not exist, or it has no address.
        """
        literal = address_of(host)
        if literal is not None:
            if self._version not in (None, literal.version):
                raise NameNotFoundError(None, f"{host} is not an IPv{self._version} address")
            return [_of(_FAMILY[literal.version], str(literal), port)]
        began = time.monotonic()
        phases.begin("dns")
        known = self._known.get(host)
        if known is None or known[1] <= began:
            addresses = await self._look_up(host)
            phases.dns_s = time.monotonic() - began
        else:
            addresses = known[0]
        return [_of(kind, address, port) for kind, address in addresses]

    async def _look_up(self, host: str) -> Addresses:
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = asyncio.create_task(self._ask(host))
            lookup.add_done_callback(lambda done: self._end(host, done))
        # If one waiter is cancelled, the others still get the answer.
        return await shielded(lookup)

    def _end(self, host: str, lookup: asyncio.Task[Addresses]) -> None:
        del self._lookups[host]
        if not lookup.cancelled():
            # Every waiter may have been cancelled: mark the exception as retrieved.
            lookup.exception()

    async def _ask(self, host: str) -> Addresses:
        answer, error = await self._answer(host)
        if error:
            text = pycares.errno.strerror(error)
            kind = NameNotFoundError if error in _NO_SUCH_NAME else OSError
            raise kind(None, f"{host}: {text.decode() if isinstance(text, bytes) else text}")
        found = tuple(
            (socket.AddressFamily(node.family), node.addr[0].decode() if type(node.addr[0]) is bytes else node.addr[0])
            for node in answer.nodes
        )
        if not found:
            raise NameNotFoundError(None, f"{host}: no address")
        least_ttl_s = min([node.ttl for node in answer.nodes] + [alias.ttl for alias in answer.cnames])
        if least_ttl_s > 0:
            if len(self._known) >= _MOST_NAMES:
                del self._known[next(iter(self._known))]
            self._known.pop(host, None)
            self._known[host] = (found, time.monotonic() + least_ttl_s)
        return found

    async def _answer(self, host: str) -> tuple[Any, int]:
        """The answer of the name servers and the number of an error (0: none). The lookup runs in c-ares' thread."""
        channel = self._channel
        if channel is None or channel.asked >= _MOST_ASKED:
            if channel is not None:
                channel.retire()
            channel = self._channel = _Channel(self._servers)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, int]] = loop.create_future()

        def settle(answer: Any, error: int) -> None:
            if not future.done():
                future.set_result((answer, error))

        def told(answer: Any, error: int) -> None:
            # The loop may be closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, answer, error or 0)

        channel.ask(host, self._family, told)
        try:
            return await future
        finally:
            channel.answered()

    async def close(self) -> None:
        """Cancel all lookups and close the channel."""
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()


_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


def _of(family: int, address: str, port: int) -> tuple[int, Any]:
    return family, (address, port) if family == socket.AF_INET else (address, port, 0, 0)


class _Channel:
    """A channel of c-ares, which has its own thread. After `retire()`, it is closed when its last lookup has ended."""

    def __init__(self, servers: list[str] | None) -> None:
        self._channel = pycares.Channel(servers=servers)
        self._waiting = 0
        self._is_retired = False
        self.asked = 0

    def ask(self, host: str, family: socket.AddressFamily, callback: Callable[[Any, int], None]) -> None:
        self.asked += 1
        self._waiting += 1
        self._channel.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, callback=callback)

    def answered(self) -> None:
        self._waiting -= 1
        if self._is_retired and self._waiting == 0:
            self._channel.close()

    def retire(self) -> None:
        self._is_retired = True
        if self._waiting == 0:
            self._channel.close()

    def close(self) -> None:
        self._channel.cancel()
        self._channel.close()
