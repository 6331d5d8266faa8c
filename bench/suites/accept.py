"""accept: connect, one message there and back, the server closes; cost per connection."""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import SERVER_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.sizes or (64,)
    connections = options.pick_connections(10)
    rivals = [name for name in SERVER_RIVALS if name != "floor-uring"]
    return echo_cases(
        "accept", options, rivals, Serve("accept"), sizes, connections, "accept",
        "a message is a connection; so many are opened at a time",
    )
