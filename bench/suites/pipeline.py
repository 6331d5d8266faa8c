"""pipeline: the client sends 16 or 128 messages of 64 B in one write; the server answers each with a separate write.

Both sides: cut what came into messages and write each with a call of its own. Whether a library sends them together is
its choice; every byte is checked.
Kept: the connections, and the rest of a message that is not complete.
Thrown away: each message, as soon as it is written.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.served import Load
from bench.suites.echo import echo_case
from bench.suites.options import SERVER_RIVALS, Options, size_text


def cases(options: Options) -> list[Case]:
    sizes = options.sizes or (64,)
    connections = options.pick_connections(10, 100)
    depths = (16,) if options.quick else (16, 128)
    remark = "the floor answers in one write"
    return [
        echo_case(
            "pipeline",
            options,
            SERVER_RIVALS,
            Serve("pipeline", size=size),
            Load(size=size, connections=count, pipeline=depth),
            name=f"{depth} × {size_text(size)}, {count} connections",
            remark=remark,
        )
        for size in sizes
        for depth in depths
        for count in connections
    ]
