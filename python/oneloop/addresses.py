"""`is_public`: whether an address belongs to the public Internet, in any notation.

The tables are IANA's registries of special-purpose addresses (RFC 6890 and its successors). They are written out here
because `ipaddress.is_global` differs between versions of Python.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["address_of", "is_public"]

_PRIVATE_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local; clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved; broadcast
        ),
    )
)
# Metadata services of clouds at addresses outside the private ranges.
_METADATA_4 = (IPv4Address("168.63.129.16"), IPv4Address("100.100.100.200"))
# All public addresses are in this network; _PRIVATE_6 lists the exceptions.
_UNICAST_6 = IPv6Network("2000::/3")
_PRIVATE_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: a relay forwards to the IPv4 address that it contains
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Parse the host of a URL as an address.

    Args:
        host: an IPv4 or IPv6 address, also in the short, octal, hexadecimal and integer forms of inet_aton(3); or a
            name.

    Returns:
        The address, without its zone. None if the host is a name.
    """
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if not host[:1].isdigit() or not host.isascii():
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether a connection to this address goes to the public Internet."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(address.packed[12:]))
        return address in _UNICAST_6 and not any(address in network for network in _PRIVATE_6)
    return address not in _METADATA_4 and not any(address in network for network in _PRIVATE_4)
