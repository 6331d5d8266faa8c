"""unix: the same echo on a Unix stream socket.

Both sides: as in `tcp`, by the same programs on a Unix socket.
Kept: the connections.
Thrown away: each message, as soon as it is written.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import SERVER_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024,))
    connections = options.pick_connections(1, 10, 100, 1000)
    serve = Serve("protocol", family="unix")
    return echo_cases("unix", options, SERVER_RIVALS, serve, sizes, connections)
