"""`NEEDS_IPV6`, `has_ipv6`: for tests that use the address ::1, which some machines and containers do not have."""

from __future__ import annotations

import socket

import pytest


def has_ipv6() -> bool:
    """Whether this machine has the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


NEEDS_IPV6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no address ::1")
