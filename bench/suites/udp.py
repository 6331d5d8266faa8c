"""udp: echo of datagrams, 64 B to 8 KiB.

Both sides: one `recvfrom` and one `sendto` for each datagram, or what the library makes of them; the asyncio loops
run one DatagramProtocol.
Kept: nothing.
Thrown away: each datagram, as soon as it is sent.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests. Lost datagrams are
counted and noted.
"""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import SERVER_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(64, 1024, 8192, core=(64, 8192))
    connections = options.pick_connections(1, 10, 100)
    serve = Serve("udp", family="udp")
    return echo_cases("udp", options, SERVER_RIVALS, serve, sizes, connections, mode="udp")
