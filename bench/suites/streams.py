"""streams: echo through asyncio streams and the streams of other libraries.

Both sides: `await reader.read(102400)`, then `writer.write` without `drain`; other libraries with their streams, whose
write is awaited.
Kept: the connections, with a task or coroutine for each.
Thrown away: each message, as soon as it is written.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import FLOOR, Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import ALL_LOOPS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024, 102_400))
    connections = options.pick_connections(10, 100)
    rivals = (FLOOR, *ALL_LOOPS, "tornado", "curio", "trio")
    return echo_cases("streams", options, rivals, Serve("streams"), sizes, connections)
