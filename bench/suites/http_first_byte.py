"""http: time to the first byte, if an application sends its head and computes before it sends the body.

oneloop sends head and body in one call: the head waits for the first part of the body, at most until the application
waits for something. This row shows the cost of this if the application computes in between without waiting.

Both sides: the same ASGI application, which sends its head, computes for 10 ms and sends its body.
Kept: one connection.
Thrown away: each response.
Window: from the request to the first byte, and to the last one, for each of some requests; the figure is the median.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.catalogue import SUBJECT, Serve
from bench.http_servers import start
from bench.model import Case, RivalFailedError, Sample, Settings
from bench.rivals.cpu_work import AFTER_ANSWER_S
from bench.served import running_server
from bench.suites.options import Options

UVICORN = "uvicorn on uvloop"
RIVALS = (SUBJECT, UVICORN, "uvicorn on asyncio", f"uvicorn on {SUBJECT}", "granian", "hypercorn on uvloop")
LENGTH = 1024
REQUEST = f"GET /before/{LENGTH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
REQUESTS = 50
PATIENCE_S = 10.0


@contextmanager
def on_cpu(cpu: int | None) -> Iterator[None]:
    """Runs this thread on the generator's CPU, as in other rows."""
    before = os.sched_getaffinity(0)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def ask(client: socket.socket) -> tuple[int, int]:
    """Nanoseconds to the first and to the last byte of a response. Raises RivalFailedError."""
    asked_ns = time.perf_counter_ns()
    client.sendall(REQUEST)
    data = client.recv(65_536)
    first_ns = time.perf_counter_ns() - asked_ns
    # With its length or in chunks: `x` does not occur in the framing.
    while (body := data.partition(b"\r\n\r\n")[2]).count(b"x") < LENGTH or not body.endswith((b"x", b"0\r\n\r\n")):
        more = client.recv(65_536)
        if not more:
            raise RivalFailedError("closed the connection before the response was complete")
        data += more
    last_ns = time.perf_counter_ns() - asked_ns
    if not data.startswith(b"HTTP/1.1 200 "):
        raise RivalFailedError(f"wrong answer: {data[:60]!r}")
    return first_ns, last_ns


def measure(rival: str, settings: Settings) -> Sample:
    count = settings.scaled(REQUESTS)
    with running_server(rival, Serve("http"), settings, start) as (_, address):
        port = int(address[address.index("--port") + 1])
        with on_cpu(settings.generator_cpu), socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The first response includes one-time initialization.
            found = [ask(client) for _ in range(count + 1)][1:]
    first, last = zip(*found, strict=True)
    return Sample({"first_ns": statistics.median(first), "p50_ns": statistics.median(last)})


def cases(options: Options) -> list[Case]:
    work = f"{AFTER_ANSWER_S * 1000:.0f} ms"
    return [
        Case(
            suite="http",
            name=f"ASGI, head said before {work} of computing, body after it",
            params={"form": "http", "size": LENGTH},
            metric="first_ns",
            unit="time from the request to the first byte of its answer",
            rivals=options.pick_rivals(RIVALS),
            measure=measure,
            remark=f"oneloop's head waits for the body: it arrives {work} later than a head that is sent separately; "
            "the complete response (p50) is not later",
            baseline=UVICORN,
            beside=("granian",),
        )
    ]
