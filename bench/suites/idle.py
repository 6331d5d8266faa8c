"""idle: the memory of an idle connection.

Both sides: the echo server of `tcp`; each connection has had one message of 64 B.
Kept: all connections, each with its protocol, coroutine or goroutine.
Thrown away: the messages.
Window: private memory before the connections, and while all of them are open and nothing happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from bench import measure
from bench.catalogue import Serve
from bench.model import Case, RivalFailedError, Sample, Settings
from bench.process import Program, native
from bench.served import Load, StartServer, default_start, explain, read_event, running_server
from bench.suites.options import SERVER_RIVALS, Options

PATIENCE_S = 60.0
#: A server counts as idle if it used less CPU time than this in this period.
RESTING_CPU_NS = 2_000_000
REST_S = 0.1

IDLE = Serve("idle")


#: One message on each connection, with its response.
ANSWERED = Load(size=64, hold="answered")


def measure_idle(
    rival: str,
    count: int,
    settings: Settings,
    start: StartServer = default_start,
    serve: Serve = IDLE,
    load: Load = ANSWERED,
) -> Sample:
    """Memory per connection, for connections that are idle after the first response or before reading it."""
    with running_server(rival, serve, settings, start) as (server, address):
        # One connection first, so that one-time initialization is not counted.
        _hold(server, address, replace(load, connections=1), settings)
        before = (measure.private_bytes(server.pid), measure.read_usage(server.pid))
        after = _hold(server, address, replace(load, connections=count), settings)
    return Sample(
        {
            "bytes_per_item": max(0, after[0] - before[0]) / count,
            "rss_bytes_per_item": max(0, after[1].rss_bytes - before[1].rss_bytes) / count,
            "rss_bytes": after[1].rss_bytes,
            "vss_bytes": after[1].vss_bytes,
            "threads": after[1].threads,
        }
    )


def _await_rest(pid: int) -> None:
    """Returns when the server is idle, that is, when it waits for its clients to read."""
    deadline = time.monotonic() + PATIENCE_S
    used_ns = -RESTING_CPU_NS
    while (now_ns := measure.read_usage(pid).cpu_ns) - used_ns >= RESTING_CPU_NS:
        if time.monotonic() > deadline:
            raise RivalFailedError("does not become idle while its clients do not read")
        used_ns = now_ns
        time.sleep(REST_S)


def _hold(server: Program, address: list[str], load: Load, settings: Settings) -> tuple[int, measure.Usage]:
    """Opens the connections, measures the server's memory while they are open, and closes them."""
    argv = [native("loadgen"), *address, *load.options(settings)]
    with Program(argv, settings.generator_cpu) as generator:
        try:
            read_event(generator, PATIENCE_S)
            if load.hold == "unread":
                _await_rest(server.pid)
            found = measure.private_bytes(server.pid), measure.read_usage(server.pid)
            generator.tell("go")
            read_event(generator, PATIENCE_S)
        except RivalFailedError as failure:
            raise explain(server, failure) from failure
        except ProcessLookupError:
            raise RivalFailedError(f"died: {server.ending()}") from None
    return found


def _measure_of(count: int) -> Callable[[str, Settings], Sample]:
    return lambda rival, settings: measure_idle(rival, count, settings)


def cases(options: Options) -> list[Case]:
    return [
        Case(
            suite="idle",
            name=f"{count:,} idle connections",
            params={"connections": count},
            metric="bytes_per_item",
            unit="private memory per connection",
            rivals=options.pick_rivals(SERVER_RIVALS),
            measure=_measure_of(count),
            remark="private memory of the process; the kernel's own memory for a socket is the same for all",
        )
        for count in options.pick_connections(10_000, quick=1000, core=(10_000,))
    ]
