"""`LookupResolver`: the standard library's functions, based on two queries.

The queries are: the addresses of a name, and the names of an address.
"""

from __future__ import annotations

import socket as _stock
from typing import Any

from oneloop.green.resolver import AbstractResolver, is_numeric

__all__ = ["LookupResolver"]

_getaddrinfo = _stock.getaddrinfo
_getnameinfo = _stock.getnameinfo


class LookupResolver(AbstractResolver):
    """Subclasses implement the two queries, and let other green threads run while they wait.

    Ports, flags and numeric addresses are handled by the system's functions, which need no query for them.
    """

    def addresses(self, name: str, family: int) -> tuple[str, list[str]]:
        """Query the addresses of a name.

        Args:
            name: the host name.
            family: the address family; `AF_UNSPEC` means both.

        Returns:
            The canonical name and the addresses.

        Raises:
            socket.gaierror: the name has no addresses, or no server answers.
        """
        raise NotImplementedError

    def names(self, address: str) -> list[str]:
        """Query the names of an address, the primary name first. Empty if there are none.

        Raises:
            socket.gaierror: no server answers.
        """
        raise NotImplementedError

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
        name = _as_text(host)
        is_name = isinstance(name, str) and name and not is_numeric(name) and not flags & _stock.AI_NUMERICHOST
        if not is_name or family not in (_stock.AF_UNSPEC, _stock.AF_INET, _stock.AF_INET6):
            return _getaddrinfo(host, port, family, type, proto, flags)
        canonical, addresses = self.addresses(name, family)
        found: list[Any] = []
        for address in addresses:
            number_flags = (flags | _stock.AI_NUMERICHOST) & ~_stock.AI_CANONNAME
            found += _getaddrinfo(address, port, family, type, proto, number_flags)
        if flags & _stock.AI_CANONNAME:
            found[0] = (*found[0][:3], canonical, found[0][4])
        return found

    def gethostbyname(self, hostname: Any) -> str:
        """Like `socket.gethostbyname`."""
        address: str = self.getaddrinfo(hostname, None, _stock.AF_INET, _stock.SOCK_STREAM)[0][4][0]
        return address

    def gethostbyname_ex(self, hostname: Any) -> tuple[str, list[str], list[str]]:
        """Like `socket.gethostbyname_ex`."""
        found = self.getaddrinfo(hostname, None, _stock.AF_INET, _stock.SOCK_STREAM, 0, _stock.AI_CANONNAME)
        return found[0][3] or hostname, [], [one[4][0] for one in found]

    def gethostbyaddr(self, ip_address: Any) -> tuple[str, list[str], list[str]]:
        """Like `socket.gethostbyaddr`."""
        address = self.getaddrinfo(ip_address, None, 0, _stock.SOCK_STREAM)[0][4][0]
        names = self.names(address)
        if not names:
            raise _stock.herror(1, "Unknown host")
        return names[0], names[1:], [address]

    def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Like `socket.getnameinfo`."""
        # The system's function resolves the port and checks the arguments.
        host, service = _getnameinfo(sockaddr, (flags | _stock.NI_NUMERICHOST) & ~_stock.NI_NAMEREQD)
        if flags & _stock.NI_NUMERICHOST:
            return host, service
        names = self.names(host)
        if names:
            return names[0].partition(".")[0] if flags & _stock.NI_NOFQDN else names[0], service
        if flags & _stock.NI_NAMEREQD:
            raise _stock.gaierror(_stock.EAI_NONAME, "Name or service not known")
        return host, service


def _as_text(host: Any) -> Any:
    """A host name in the form that DNS uses."""
    if isinstance(host, bytes | bytearray):
        return host.decode("ascii")
    if isinstance(host, str) and not host.isascii():
        return host.encode("idna").decode("ascii")
    return host
