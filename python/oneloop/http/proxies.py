"""`Trust`: which peers are trusted proxies. `client_of`: the client's address from X-Forwarded-For and -Proto.

The rule is uvicorn's. Each proxy appends the address of its peer, so the client is the rightmost address that does not
belong to a trusted proxy. Addresses to the left of it were written by the client and are ignored.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Client", "Trust", "client_of"]

SCHEMES = ("http", "https", "ws", "wss")
# The longest name in DNS. Results for longer names are not cached.
LONGEST_HOST = 253
# The number of cached results.
KEPT = 4096
# The default. `ipaddress` is imported only for other addresses: it takes a part of a server's start. That is when the
# options are read, for the reasons in `imports.py`.
_LOOPBACK = ("127.0.0.1", "::1")
# The beginning of an IPv4 address in an IPv6 address (RFC 4291, 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"


@final
class Trust:
    """Whether an address belongs to a trusted proxy. Called for each connection's peer and for forwarded addresses.

    Args:
        allowed: addresses, networks, paths of unix sockets, and `unix` (every peer without an address), as a list or
            separated by commas. `*` trusts every peer.

    Raises:
        ValueError: an item is none of these. Host names are not resolved.
    """

    __slots__ = ("_addresses", "_has_others", "_literals", "_networks", "_responses", "is_everybody")

    def __init__(self, allowed: str | Sequence[str]) -> None:
        names = allowed.split(",") if isinstance(allowed, str) else allowed
        stripped = [name.strip() for name in names if name.strip()]
        self.is_everybody = "*" in stripped
        # In the form of `str(ip_address(...))`.
        self._addresses: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._literals: set[str] = set()
        self._responses: dict[str, bool] = {}
        # Besides those of `_LOOPBACK`.
        self._has_others = False
        for name in stripped:
            self._add(name)

    def _add(self, name: str) -> None:
        if name in _LOOPBACK:
            self._addresses.add(name)
            return
        if name == "*":
            return
        self._has_others = True
        import ipaddress

        if "/" in name and not name.startswith("/"):
            try:
                self._networks.append(ipaddress.ip_network(name))
            except ValueError as error:
                raise ValueError(f"{name!r} is neither a network nor an absolute path ({error})") from error
            return
        try:
            self._addresses.add(str(ipaddress.ip_address(name)))
        except ValueError as error:
            if name != "unix" and not name.startswith("/"):
                raise ValueError(
                    f"{name!r} is not an IP address, a network, the path of a unix socket, 'unix' or '*'"
                    " (host names are not resolved: give the proxy's address)"
                ) from error
            self._literals.add(name)

    def __call__(self, host: str) -> bool:
        """Return True if this host is trusted. `""` and `unix` are peers without an address (unix sockets)."""
        if self.is_everybody:
            return True
        response = self._responses.get(host)
        if response is None:
            response = self._is_trusted(host)
            if len(host) <= LONGEST_HOST:
                if len(self._responses) >= KEPT:
                    self._responses.clear()
                self._responses[host] = response
        return response

    def _is_trusted(self, host: str) -> bool:
        if host in self._addresses:
            return True
        if not self._has_others:
            return _without_zone(host) in self._addresses
        # Imported before.
        import ipaddress

        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return (host or "unix") in self._literals
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return str(address) in self._addresses or any(address in network for network in self._networks)


def _without_zone(host: str) -> str:
    """Return an address in the form of `str(ip_address(host))`; "" for another text, also for one with a zone."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        if packed.startswith(_MAPPED):
            return socket.inet_ntop(socket.AF_INET, packed[len(_MAPPED) :])
        return socket.inet_ntop(family, packed)
    return ""


@dataclass(frozen=True, slots=True)
class Client:
    """The client's address and scheme according to the headers; None for each value that they do not contain."""

    host: str | None
    port: int | None
    scheme: str | None


def client_of(
    peer: str,
    forwarded_for: Iterable[bytes],
    forwarded_proto: Iterable[bytes],
    trust: Callable[[str], bool],
) -> Client:
    """Find the client behind trusted proxies.

    Args:
        peer: the address of the connection's peer.
        forwarded_for: the values of all X-Forwarded-For headers, in order.
        forwarded_proto: the values of all X-Forwarded-Proto headers; the last one is used.
        trust: returns True if an address belongs to a trusted proxy.

    Returns:
        The client; all fields are None if the peer is not a trusted proxy.
    """
    if not trust(peer):
        return Client(None, None, None)
    scheme = None
    for value in forwarded_proto:
        word = value.decode("latin-1").strip()
        scheme = word if word in SCHEMES else None
    text = b",".join(forwarded_for).decode("latin-1")
    if not text.strip():
        return Client(None, None, scheme)
    hosts = [_host_and_port(item.strip()) for item in text.split(",")]
    if getattr(trust, "is_everybody", False):
        chosen = hosts[0]
    else:
        # If all addresses belong to proxies, the first of them is the client.
        chosen = next((one for one in reversed(hosts) if not trust(one[0])), hosts[0])
    return Client(chosen[0], chosen[1], scheme) if chosen[0] else Client(None, None, scheme)


def _host_and_port(text: str) -> tuple[str, int]:
    """Split `host`, `host:port`, `[v6]` or `[v6]:port`. Any other text is returned as a host without a port (0)."""
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            return text, 0
        return host, _port(rest[1:])
    if text.count(":") == 1:
        host, _, digits = text.partition(":")
        if not (digits.isascii() and digits.isdecimal()):
            return text, 0
        return host, _port(digits)
    return text, 0


def _port(digits: str) -> int:
    # Check the length first: converting a very long number is slow.
    if digits.isascii() and digits.isdecimal() and len(digits) <= 5 and int(digits) <= 65535:
        return int(digits)
    return 0
