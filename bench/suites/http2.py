"""http2: servers of one ASGI application over HTTP/2 and TLS, every response's length checked.

Both sides: the same ASGI application; Go has a handler that makes the same responses. Contexts of the ssl module where
the server takes one, its own otherwise. The generator is h2load.
Kept: the connections, and the tables of their header compression.
Thrown away: each request and its response.
Window: a fixed number of requests, as many as the server answers in the time of the window, on a CPU of its own, with
the handshakes of the connections, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import SUBJECT
from bench.h2load import Streams, measure_streams
from bench.http_servers import start
from bench.model import Case, Sample, Settings
from bench.suites.options import Options, size_text

RIVALS = (SUBJECT, "granian", "h2corn", "hypercorn on uvloop", "go")
KIB = 1024
#: The load, the rival of the target, and the target.
ROWS = (
    (Streams(10, 10, KIB), "granian", "at most 0.6 x granian"),
    (Streams(10, 1, KIB), "h2corn", "at most 0.6 x h2corn"),
    (Streams(1, 100, KIB), "granian", "at most 0.6 x granian"),
    (Streams(10, 10, 100 * KIB), "go", "at most 0.8 x go"),
)


def _case(options: Options, streams: Streams, baseline: str, target: str) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_streams(rival, streams, settings, start)

    return Case(
        suite="http2",
        name=f"{size_text(streams.size)}, {streams.connections} × {streams.at_once} streams",
        params={"connections": streams.connections, "streams": streams.at_once, "size": streams.size},
        metric="server_cpu_ns",
        unit="CPU per request",
        rivals=options.pick_rivals(RIVALS),
        measure=measure,
        remark=f"oneloop's target: {target}",
        baseline=baseline,
        beside=tuple(name for name in ("granian", "h2corn", "go") if name != baseline),
    )


def cases(options: Options) -> list[Case]:
    """The cases: connections times streams, by the size of the response."""
    chosen = ROWS[:1] if options.quick else ROWS
    return [_case(options, *row) for row in chosen]
