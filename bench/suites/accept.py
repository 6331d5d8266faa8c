"""accept: connect, echo one message, close; cost per connection. Either the server or the client closes.

Both sides: accept, receive one message, write it back, and close or see the close.
Kept: the listening socket.
Thrown away: each connection with everything that belongs to it.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import URING, Serve
from bench.model import Case
from bench.served import Load
from bench.suites.echo import echo_case
from bench.suites.options import SERVER_RIVALS, Options, size_text


def cases(options: Options) -> list[Case]:
    sizes = options.sizes or (64,)
    connections = options.pick_connections(10)
    rivals = [name for name in SERVER_RIVALS if name != URING]
    closers = ("client",) if options.quick else ("client", "server")
    return [
        echo_case(
            "accept",
            options,
            rivals,
            Serve("accept" if closer == "server" else "protocol"),
            Load("accept", size, count, closer=closer),
            name=f"{size_text(size)}, {count} at a time, the {closer} closes",
            remark="a message is a whole connection",
        )
        for closer in closers
        for size in sizes
        for count in connections
    ]
