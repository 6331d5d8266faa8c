"""streams: echo through asyncio streams and the streams of other libraries."""

from __future__ import annotations

from bench.catalogue import FLOOR, Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import LOOP_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024, 102_400))
    connections = options.pick_connections(10, 100)
    rivals = (FLOOR, *LOOP_RIVALS, "tornado", "curio", "trio")
    return echo_cases("streams", options, rivals, Serve("streams"), sizes, connections)
