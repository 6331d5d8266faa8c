"""`free_port`, for servers that cannot be asked which one they got, and for clients that are to be refused."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _candidates() -> list[int]:
    """Ports that the kernel gives to nobody who does not ask for them by number.

    Any other port may be a connection's of another program a moment later. A client that connects to such a port, on
    which nobody listens, may even be given it itself, and be connected to itself.
    """
    first = int(_RANGE.read_text().split()[0])
    # Where the kernel gives all ports to anybody, there is no better choice.
    found = list(range(_LOWEST, first if first > _LOWEST + 1000 else 60_000))
    # Not the generator of the tests, which begins with the same seed in several processes.
    random.SystemRandom().shuffle(found)
    return found


_ports = itertools.cycle(_candidates())


def connections_to(port: int) -> int:
    """Return how many connections to a port of this machine nobody has ended yet, as their clients' sockets see it."""
    established = "01"  # net/tcp_states.h
    count = 0
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
            fields = [line.split() for line in lines]
            count += sum(remote.endswith(f":{port:04X}") and state == established for _, _, remote, state, *_ in fields)
    return count


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens. It is another one each time."""
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("an endless iterator has ended")
