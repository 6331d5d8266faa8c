"""`Resolver`: the addresses of a name, kept for some time, and whether the client may connect to them."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from oneloop.addresses import address_of, is_public
from oneloop.http.client.errors import PrivateAddress
from oneloop.waiting import shielded

if TYPE_CHECKING:
    from oneloop.loop import Loop

__all__ = ["Address", "Resolver"]

Address = tuple[int, Any]
"""The family, and the address as sockets take it."""

_MOST_NAMES = 4096


class Resolver:
    """The addresses of names. Lookups of the same name at the same time are one.

    Args:
        loop: looks them up, in a thread.
        kept_s: how long addresses are kept, in seconds; 0: not at all.
        blocks_private: refuse addresses outside of the public Internet.
    """

    def __init__(self, loop: Loop, kept_s: float, blocks_private: bool) -> None:
        self.loop = loop
        self._kept_s = kept_s
        self._blocks_private = blocks_private
        # By host and port: the addresses, and when they are too old.
        self._known: dict[tuple[str, int], tuple[list[Address], float]] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[list[Address]]] = {}
        self._unguarded: Resolver | None = None

    @property
    def of_proxies(self) -> Resolver:
        """The resolver for the names of proxies, whose addresses may be private."""
        if not self._blocks_private:
            return self
        if self._unguarded is None:
            self._unguarded = Resolver(self.loop, self._kept_s, False)
        return self._unguarded

    def at_once(self, host: str, port: int) -> list[Address] | None:
        """Return the addresses if no lookup is needed.

        Raises:
            OSError: the host is an address that is not allowed.
        """
        known = self._known.get((host, port))
        if known is not None:
            if known[1] > self.loop.time():
                return known[0]
            del self._known[host, port]
        literal = _literal(host, port)
        return None if literal is None else self._allowed(host, [literal])

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Return the addresses, those of the two families by turns, the system's first one first.

        Raises:
            OSError: the name cannot be resolved, or none of its addresses is allowed.
        """
        found = self.at_once(host, port)
        if found is not None:
            return found
        key = (host, port)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = self.loop.create_task(self._look_up(host, port))
            lookup.add_done_callback(lambda done: self._end(key, done))
        try:
            # Others may wait for it too.
            return await shielded(lookup)
        finally:
            # The traceback of what is raised has this frame.
            del lookup

    async def _look_up(self, host: str, port: int) -> list[Address]:
        infos = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = self._allowed(host, _by_turns([(family, address) for family, _, _, _, address in infos]))
        if self._kept_s > 0:
            if len(self._known) >= _MOST_NAMES:
                del self._known[next(iter(self._known))]
            self._known[host, port] = (found, self.loop.time() + self._kept_s)
        return found

    def _end(self, key: tuple[str, int], lookup: asyncio.Task[list[Address]]) -> None:
        del self._lookups[key]
        if not lookup.cancelled():
            # All who waited may have been cancelled: its exception is no news to anybody then.
            lookup.exception()

    def forget(self, host: str, port: int) -> None:
        """None of the addresses took a connection: look them up anew."""
        self._known.pop((host, port), None)

    def close(self) -> None:
        """End the lookups."""
        for lookup in self._lookups.values():
            lookup.cancel()
        if self._unguarded is not None:
            self._unguarded.close()

    def _allowed(self, host: str, addresses: list[Address]) -> list[Address]:
        if not self._blocks_private:
            return addresses
        public = [(family, address) for family, address in addresses if _is_public(address[0])]
        if not public:
            shown = ", ".join(str(address[0]) for _, address in addresses)
            where = shown if shown == host else f"{host} ({shown})"
            raise PrivateAddress(f"{where} is not on the public Internet, and the client has block_private=True")
        return public


def _is_public(text: str) -> bool:
    address = address_of(text)
    return address is not None and is_public(address)


def _literal(host: str, port: int) -> Address | None:
    """The address if the host is one. Those with a zone are the system's business."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return (family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))
    return None


def _by_turns(addresses: list[Address]) -> list[Address]:
    """RFC 8305 section 4."""
    first = [found for found in addresses if found[0] == addresses[0][0]]
    others = [found for found in addresses if found[0] != addresses[0][0]]
    mixed: list[Address] = []
    while first or others:
        mixed += [queue.pop(0) for queue in (first, others) if queue]
    return mixed
