"""Resolvers: look up host names and addresses, so that only the calling green thread waits.

`get_hub().resolver` is the resolver in use. The environment variable GEVENT_RESOLVER selects one: `thread` (the
default), `block`, `dnspython` or `ares`. If it lists several, separated by commas, the first that can be imported is
used.
"""

from __future__ import annotations

import os
import socket as _stock
from typing import Any

from oneloop.green.hub import Hub, get_hub, has_hub
from oneloop.green.settings import config, resolver_class

__all__ = ["AbstractResolver", "resolver_class", "resolver_here"]

_getaddrinfo = _stock.getaddrinfo
_getnameinfo = _stock.getnameinfo
_gethostbyname = _stock.gethostbyname
_gethostbyname_ex = _stock.gethostbyname_ex
_gethostbyaddr = _stock.gethostbyaddr


class AbstractResolver:
    """The standard library's functions, with its exceptions. Subclasses define how blocking functions are called.

    This class calls them directly. It is used in threads without a hub, which may block.
    """

    def __init__(self, hub: Any = None) -> None:
        """Create a resolver for the green threads of a hub; None means the hub of the calling thread."""

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function that may block, and return its result."""
        return function(*args)

    def close(self) -> None:
        """Release the resolver's resources."""

    def getaddrinfo(
        self,
        host: Any,
        port: Any,
        family: int = 0,
        type: int = 0,  # noqa: A002 - its name
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Like `socket.getaddrinfo`."""
        if host is None or is_numeric(host):
            return _getaddrinfo(host, port, family, type, proto, flags)
        return self.call(_getaddrinfo, host, port, family, type, proto, flags)

    def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Like `socket.getnameinfo`."""
        address: Any = sockaddr
        host: Any = sockaddr[0] if isinstance(sockaddr, tuple) and len(sockaddr) > 1 else None
        if host is None or (flags & _stock.NI_NUMERICHOST and is_numeric(host)):
            return _getnameinfo(address, flags)
        found: tuple[str, str] = self.call(_getnameinfo, sockaddr, flags)
        return found

    def gethostbyname(self, hostname: Any) -> str:
        """Like `socket.gethostbyname`."""
        if is_numeric(hostname):
            return _gethostbyname(hostname)
        found: str = self.call(_gethostbyname, hostname)
        return found

    def gethostbyname_ex(self, hostname: Any) -> tuple[str, list[str], list[str]]:
        """Like `socket.gethostbyname_ex`."""
        found: tuple[str, list[str], list[str]] = self.call(_gethostbyname_ex, hostname)
        return found

    def gethostbyaddr(self, ip_address: Any) -> tuple[str, list[str], list[str]]:
        """Like `socket.gethostbyaddr`."""
        found: tuple[str, list[str], list[str]] = self.call(_gethostbyaddr, ip_address)
        return found


def is_numeric(host: Any) -> bool:
    """Whether a host is an IP address, which needs no lookup."""
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
    """The resolver of the calling thread's hub. Without a hub and other settings, one that blocks the thread."""
    is_chosen = "resolver" in vars(config) or os.environ.get("GEVENT_RESOLVER", "thread") != "thread"
    if not has_hub() and Hub.resolver_class is None and not is_chosen:
        return _system
    resolver: AbstractResolver = get_hub().resolver
    return resolver
