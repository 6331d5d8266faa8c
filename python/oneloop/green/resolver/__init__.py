"""Resolvers: who asks for the names and the numbers of hosts, so that only the green thread that asks waits.

`get_hub().resolver` is the one in use. The environment variable GEVENT_RESOLVER names another than the default,
`thread`: `block`, `dnspython` or `ares`; of several, separated by commas, the first that can be imported.
"""

from __future__ import annotations

import os
import socket as _stock
from importlib import import_module
from typing import Any

from oneloop.green.hub import Hub, get_hub, has_hub

__all__ = ["AbstractResolver", "resolver_class", "resolver_here"]

_getaddrinfo = _stock.getaddrinfo
_getnameinfo = _stock.getnameinfo
_gethostbyname = _stock.gethostbyname
_gethostbyname_ex = _stock.gethostbyname_ex
_gethostbyaddr = _stock.gethostbyaddr


class AbstractResolver:
    """Answers the standard library's questions, with its exceptions. A subclass says how it calls what may block.

    As it is, it calls it: for threads without a hub, which hold up nobody.
    """

    def __init__(self, hub: Any = None) -> None:
        """For the green threads of a hub; None: of the calling thread's."""

    def call(self, function: Any, *args: Any) -> Any:
        """The result of a function that may block."""
        return function(*args)

    def close(self) -> None:
        """Give back what it holds."""

    def getaddrinfo(
        self,
        host: Any,
        port: Any,
        family: int = 0,
        type: int = 0,  # noqa: A002 - its name
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """See `socket.getaddrinfo`."""
        if host is None or is_numeric(host):
            return _getaddrinfo(host, port, family, type, proto, flags)
        return self.call(_getaddrinfo, host, port, family, type, proto, flags)

    def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """See `socket.getnameinfo`."""
        is_address = isinstance(sockaddr, tuple) and len(sockaddr) > 1
        if not is_address or (flags & _stock.NI_NUMERICHOST and is_numeric(sockaddr[0])):
            return _getnameinfo(sockaddr, flags)
        found: tuple[str, str] = self.call(_getnameinfo, sockaddr, flags)
        return found

    def gethostbyname(self, hostname: Any) -> str:
        """See `socket.gethostbyname`."""
        if is_numeric(hostname):
            return _gethostbyname(hostname)
        found: str = self.call(_gethostbyname, hostname)
        return found

    def gethostbyname_ex(self, hostname: Any) -> tuple[str, list[str], list[str]]:
        """See `socket.gethostbyname_ex`."""
        found: tuple[str, list[str], list[str]] = self.call(_gethostbyname_ex, hostname)
        return found

    def gethostbyaddr(self, ip_address: Any) -> tuple[str, list[str], list[str]]:
        """See `socket.gethostbyaddr`."""
        found: tuple[str, list[str], list[str]] = self.call(_gethostbyaddr, ip_address)
        return found


def is_numeric(host: Any) -> bool:
    """Whether a host is an address already, for which nobody needs to be asked."""
    if not isinstance(host, str):
        return False
    for family in (_stock.AF_INET, _stock.AF_INET6):
        try:
            _stock.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


_system = AbstractResolver()


def resolver_here() -> AbstractResolver:
    """The resolver of the calling thread's hub. A thread without a hub asks the system by itself, by default."""
    if not has_hub() and Hub.resolver_class is None and os.environ.get("GEVENT_RESOLVER", "thread") == "thread":
        return _system
    resolver: AbstractResolver = get_hub().resolver
    return resolver


def resolver_class(names: str | None = None) -> Any:
    """The class that is meant: one of `thread`, `block`, `dnspython` and `ares`, or where it can be imported from.

    Raises:
        ImportError: there is none.
    """
    if names is None:
        names = os.environ.get("GEVENT_RESOLVER") or "thread"
    missing: ImportError | None = None
    for name in names.split(","):
        module, _, attribute = _PLACES.get(name.strip(), name.strip()).rpartition(".")
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            missing = ImportError(f"no resolver {name!r}: {error}")
    assert missing is not None
    raise missing


_PLACES = {
    "thread": "oneloop.green.resolver.thread.Resolver",
    "block": "oneloop.green.resolver.blocking.Resolver",
    "dnspython": "oneloop.green.resolver.dnspython.Resolver",
    "ares": "oneloop.green.resolver.ares.Resolver",
}
