"""idle: what a connection costs in memory while nothing happens on it."""

from __future__ import annotations

from collections.abc import Callable

from bench import measure
from bench.catalogue import Serve
from bench.model import Case, RivalFailedError, Sample, Settings
from bench.process import Program, native
from bench.served import Load, StartServer, default_start, explain, read_event, running_server
from bench.suites.options import SERVER_RIVALS, Options

PATIENCE_S = 60.0


IDLE = Serve("idle")


def measure_idle(
    rival: str, count: int, settings: Settings, start: StartServer = default_start, serve: Serve = IDLE
) -> Sample:
    """What so many connections cost that have had one message each."""
    with running_server(rival, serve, settings, start) as (server, address):
        # One connection first: what is made once is not the price of a connection.
        _hold(server, address, 1, settings)
        before = (measure.private_bytes(server.pid), measure.read_usage(server.pid))
        after = _hold(server, address, count, settings)
    return Sample(
        {
            "bytes_per_item": max(0, after[0] - before[0]) / count,
            "rss_bytes_per_item": max(0, after[1].rss_bytes - before[1].rss_bytes) / count,
            "rss_bytes": after[1].rss_bytes,
            "vss_bytes": after[1].vss_bytes,
            "threads": after[1].threads,
        }
    )


def _hold(server: Program, address: list[str], count: int, settings: Settings) -> tuple[int, measure.Usage]:
    """Opens the connections, reads the server's memory while they stand, closes them."""
    options = Load("idle", 64, count).options(settings)
    with Program([native("loadgen"), *address, *options], settings.generator_cpu) as generator:
        try:
            read_event(generator, PATIENCE_S)
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
