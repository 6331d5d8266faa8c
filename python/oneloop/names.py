"""`NamesMixin`: how a loop resolves names.

The C library resolves them, on threads of the loop that never wait for the GIL. Where a program could see the
difference to asyncio, which calls `socket.getaddrinfo` in the default executor, asyncio's code runs: in debug mode,
with an executor of the program, with a replaced `socket.getaddrinfo`, and for hosts and services that Python has to
encode or to refuse.
"""

from __future__ import annotations

import _socket
import asyncio
import atexit
import functools
import re
import socket
import sys
from typing import TYPE_CHECKING, Any

from oneloop import _native

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import TypeAlias

    _Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
    _Found: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, _Address]

__all__ = ["NamesMixin"]

# Threads may still look up names, or execute file calls, for a loop that has been closed.
atexit.register(_native.wait_for_file_calls)

_stock = socket.getaddrinfo
_stock_native = _socket.getaddrinfo
#: Names that the IDNA codec leaves as they are (RFC 1123; also the underscores of service names).
_PLAIN_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_PLAIN_SERVICE = re.compile(r"[A-Za-z0-9-]{1,32}")
_MAX_PORT = 65535
_NUMERIC_HOST = int(socket.AI_NUMERICHOST)


@functools.lru_cache(maxsize=512)
def _is_plain(host: str) -> bool:
    return _PLAIN_HOST.fullmatch(host) is not None


def _address_family(number: int) -> int:  # pyright: ignore[reportUnusedFunction] - called by native code
    """The member of AddressFamily, as in what `socket.getaddrinfo` returns."""
    return _member(socket.AddressFamily, number)


def _socket_kind(number: int) -> int:  # pyright: ignore[reportUnusedFunction]
    """The member of SocketKind."""
    return _member(socket.SocketKind, number)


def _member(kind: Any, number: int) -> int:
    try:
        member: int = kind(number)
    except ValueError:
        return number
    return member


def _service(port: object) -> str | None:
    """The port as the C library takes it. ValueError if Python must look at it first."""
    if port is None:
        return None
    if type(port) is int and 0 <= port <= _MAX_PORT:
        return str(port)
    if type(port) is str and _PLAIN_SERVICE.fullmatch(port):
        return port
    raise ValueError


def _is_numeric(host: Any) -> bool:
    """Return True if `host` can be a numeric address, with or without a zone (RFC 4007), that needs no look-up."""
    # Nearly all names are recognised here: the other way raises and catches two exceptions.
    if not isinstance(host, str) or not (":" in host or "%" in host or host[-1:].isdigit()):
        return False
    address, _, _zone = host.partition("%")
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
        except (OSError, ValueError):
            continue
        return True
    return False


class NamesMixin:
    """`getaddrinfo` and `getnameinfo` of `oneloop.Loop`."""

    __slots__ = ()

    if TYPE_CHECKING:
        _resolver: _native.Files | None
        _executor_shutdown_called: bool
        _has_own_executor: bool

        def get_debug(self) -> bool: ...

    def set_default_executor(self: Any, executor: Executor) -> None:
        # Which class it must be of, the running Python decides.
        given: Any = executor
        asyncio.BaseEventLoop.set_default_executor(self, given)
        self._has_own_executor = True

    def _resolves_natively(self: Any) -> bool:
        """Whether nothing that the program has set or replaced would be passed over."""
        return bool(
            socket.getaddrinfo is _stock
            and _socket.getaddrinfo is _stock_native
            and getattr(self.run_in_executor, "__func__", None) is asyncio.BaseEventLoop.run_in_executor
            and not self._has_own_executor
            and not self._executor_shutdown_called
            and not self.get_debug()
        )

    async def getaddrinfo(
        self: Any,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[_Found]:
        """Like `socket.getaddrinfo`, on a thread. Numeric addresses are resolved without one.

        The zone of an IPv6 address is kept (RFC 4007).

        Raises:
            socket.gaierror: as `socket.getaddrinfo`.
        """
        if _is_numeric(host) and (port is None or isinstance(port, int)):
            try:
                # The enumeration's own operator is slow, and changes negative flags.
                return list(socket.getaddrinfo(host, port, family, type, proto, flags | _NUMERIC_HOST))
            except socket.gaierror:
                # It looks like an address and is not one: resolve it as a name.
                pass
        if isinstance(host, str) and _is_plain(host) and self._resolves_natively():
            try:
                service = _service(port)
            except ValueError:
                pass
            else:
                sys.audit("socket.getaddrinfo", host, port, family, type, proto)
                resolver = self._resolver
                if resolver is None:
                    # Not that of oneloop.files: a program may still choose its engine.
                    resolver = self._resolver = _native.Files(self, "threads")
                found: list[_Found] = await resolver.look_up(host, service, family, type, proto, flags)
                return found
        stock: Any = asyncio.BaseEventLoop.getaddrinfo
        told: list[_Found] = await stock(self, host, port, family=family, type=type, proto=proto, flags=flags)
        return told

    async def getnameinfo(self: Any, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Like `socket.getnameinfo`, in the executor. With NI_NUMERICHOST | NI_NUMERICSERV, without it."""
        numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        if flags & numeric == numeric:
            return socket.getnameinfo(sockaddr, flags)
        return await asyncio.BaseEventLoop.getnameinfo(self, sockaddr, flags)
