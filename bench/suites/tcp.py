"""tcp: echo through a protocol (or the closest equivalent) on TCP; 1, 10, 100 KiB; 1 to 1000 connections.

In addition to the closed loop: BufferedProtocol on the asyncio loops, and an open loop, whose latencies are measured
from the time at which a message was due.

Both sides: receive, and write back what came, with the usual call of that library; `data_received` and `write` on the
asyncio loops, which run one program. With BufferedProtocol the program copies the bytes out of its buffer.
Kept: the connections, and one buffer for each connection where the library's style has one.
Thrown away: each message, as soon as it is written.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import FLOOR, Serve
from bench.model import Case
from bench.served import Load
from bench.suites.echo import echo_case
from bench.suites.options import ALL_LOOPS, SERVER_RIVALS, Options, size_text

#: Messages per second of the open loop: about half of stock asyncio's maximum.
OPEN_LOOP_RATE = 30_000.0


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024, 102_400))
    connections = options.pick_connections(1, 10, 100, 1000, core=(10, 1000))
    serve = Serve("protocol")
    # Many connections with small messages only: a core run shows one thing at a time.
    many = sizes[:1] if options.core and not options.sizes else sizes
    found = [
        echo_case("tcp", options, SERVER_RIVALS, serve, Load(size=size, connections=count))
        for size in sizes
        for count in connections
        if size in many or count == connections[0]
    ]
    if options.quick:
        return found
    buffered = Serve("buffered")
    for size in sizes:
        load = Load(size=size, connections=10)
        name = f"BufferedProtocol, {size_text(size)}, 10 connections"
        found.append(echo_case("tcp", options, (FLOOR, *ALL_LOOPS), buffered, load, name))
    load = Load(size=1024, connections=100, rate=OPEN_LOOP_RATE)
    name = f"open loop, {OPEN_LOOP_RATE:,.0f} a second of 1 KiB, 100 connections"
    remark = "fixed rate: latency is measured from the time at which a message was due"
    found.append(echo_case("tcp", options, SERVER_RIVALS, serve, load, name, remark))
    return found
