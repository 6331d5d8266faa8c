"""sock: echo through sock_recv and sock_sendall, or the rival's own sockets.

Both sides: `sock_recv` of up to 100 KiB into new bytes, then `sock_sendall`; other libraries with their own sockets.
Kept: the connections, with a task or coroutine for each.
Thrown away: each message, as soon as it is sent.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import FLOOR, Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import ALL_LOOPS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024,))
    connections = options.pick_connections(10, 100)
    rivals = (FLOOR, *ALL_LOOPS, "gevent", "curio", "trio")
    return echo_cases("sock", options, rivals, Serve("sock"), sizes, connections)
