"""green: the two benchmarks of the gevent talk; switch, spawn, and memory of a parked green thread; pywsgi.

The talk measured the seconds for a fixed number of messages. Here these seconds are computed from the rate in a
measured window, so that long runs are not needed. They are shown with the CPU time.

Both sides: the same functions with each library's threads: green threads, tasks, or threads of the system
(`bench.rivals.green_primitives`). In the rows of servers, a green thread or goroutine for each connection, a protocol
on the asyncio loops.
Kept: the connections or the parked threads.
Thrown away: threads that have ended, messages that were sent.
Window: a fixed number of operations, repeated for at least `--duration`, and what is left to do then; for servers as in
`tcp`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from bench import http_servers
from bench.catalogue import FLOOR, SUBJECT, Serve, has_module, missing_reason, server_argv, server_env
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.rivals.loops import MODULES as LOOPS
from bench.served import Load, measure_server
from bench.suites import idle
from bench.suites.options import Options, size_text
from bench.timed import measure_program, python_module

MISSING = "suite subject does not exist yet: oneloop.green"
SERVERS = ("threads", "gevent", "tornado", "select", "asyncio", "uvloop", SUBJECT)
OPERATIONS = {
    "switch": ("switch", 300_000, "ns_per_op", "time per switch"),
    "spawn": ("spawn and join", 50_000, "ns_per_op", "time per thread"),
    "lock": ("lock that nobody else wants", 500_000, "ns_per_op", "time to acquire and release"),
    "handover": ("queue, room for one", 100_000, "ns_per_op", "time per item"),
    "pool": ("pool", 50_000, "ns_per_op", "time per thread"),
    "parked": ("parked threads", 2_000, "bytes_per_item", "private memory per thread"),
}
PRIMITIVES = ("greenlet", "threads", "gevent", "tasks on asyncio", "tasks on uvloop", SUBJECT)
WITHOUT = {
    "lock": ("greenlet",),
    "handover": ("greenlet",),
    "pool": ("greenlet", "threads", "tasks on asyncio", "tasks on uvloop"),
}
"""The rivals without this operation, with the reason."""
ECHO = ("gevent", "asyncio", "uvloop", "go", SUBJECT)


def subject_exists() -> bool:
    """Whether oneloop offers green threads."""
    if not has_module("oneloop"):
        return False
    try:
        return hasattr(importlib.import_module("oneloop.green"), "spawn")
    except ImportError:
        return False


def _remark(text: str) -> str:
    return text if subject_exists() else f"{text}; {MISSING}; rivals alone"


def start(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    """The command that starts a server. Raises RivalMissingError."""
    if rival == SUBJECT:
        if not subject_exists():
            raise RivalMissingError(MISSING)
        return python_module("oneloop_green_server", *serve.options()), {}
    if rival in ("threads", "select"):
        return python_module(f"{rival}_server", *serve.options()), {}
    return server_argv(rival, serve), server_env(rival)


def _talk_case(options: Options, form: str, connections: int, messages: int, name: str) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        # Threads run for 5 ms each, so the last of 2000 waits long.
        load = Load(size=64, connections=connections, patience_s=30.0)
        sample = measure_server(rival, Serve(form), load, settings, start)
        sample.metrics["wall_ns"] = messages / sample.metrics["throughput"] * 1e9
        return sample

    rivals = (FLOOR, *SERVERS) if form == "protocol" else SERVERS
    return Case(
        suite="green",
        name=name,
        params={"connections": connections, "messages": messages},
        metric="server_cpu_ns",
        unit="CPU per message",
        rivals=options.pick_rivals(rivals),
        measure=measure,
        remark=_remark(f"total: computed time for {messages:,} messages"),
        baseline="gevent",
    )


def _echo_case(options: Options, connections: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_server(rival, Serve("protocol"), Load(size=1024, connections=connections), settings, start)

    return Case(
        suite="green",
        name=f"echo: 1 KiB, {connections:,} connections",
        params={"size": 1024, "connections": connections},
        metric="server_cpu_ns",
        unit="CPU per message",
        rivals=options.pick_rivals((FLOOR, *ECHO)),
        measure=measure,
        remark=_remark("green threads in a StreamServer, protocols on loops, and Go's goroutines"),
        baseline="gevent",
    )


def _idle_case(options: Options, count: int) -> Case:
    return Case(
        suite="green",
        name=f"{count:,} idle connections",
        params={"connections": count},
        metric="bytes_per_item",
        unit="private memory per connection",
        rivals=options.pick_rivals(ECHO),
        measure=lambda rival, settings: idle.measure_idle(rival, count, settings, start),
        remark=_remark("a green thread waits on each connection"),
        baseline="gevent",
    )


def start_wsgi(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    """The command that starts a pywsgi server. Raises RivalMissingError."""
    if rival == SUBJECT:
        if not subject_exists():
            raise RivalMissingError(MISSING)
        return python_module("oneloop_pywsgi_server", *serve.options()), {}
    return http_servers.start(rival, serve)


def _wsgi_case(options: Options, size: int, connections: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_server(rival, Serve("wsgi"), Load("http", size, connections), settings, start_wsgi)

    return Case(
        suite="green",
        name=f"pywsgi: {size_text(size)}, {connections} connections",
        params={"size": size, "connections": connections},
        metric="server_cpu_ns",
        unit="CPU per request",
        rivals=options.pick_rivals(("pywsgi", SUBJECT)),
        measure=measure,
        remark=_remark("gevent's and oneloop's pywsgi serve the same WSGI application"),
        baseline="pywsgi",
    )


def _primitive_case(options: Options, operation: str) -> Case:
    title, count, metric, unit = OPERATIONS[operation]

    def measure(rival: str, settings: Settings) -> Sample:
        if rival == SUBJECT and not subject_exists():
            raise RivalMissingError(MISSING)
        module = rival.removeprefix("tasks on ")
        reason = missing_reason(module) if module in LOOPS else ""
        if module in ("gevent", "greenlet") and not has_module(module):
            reason = f"{module} is not installed"
        if reason:
            raise RivalMissingError(reason)
        args = ["--rival", rival, "--operation", operation, "--count", str(settings.scaled(count))]
        args += ["--seconds", str(settings.duration_s)]
        return measure_program(python_module("green_primitives", *args), settings)

    return Case(
        suite="green",
        name=title,
        params={"operation": operation, "count": count},
        metric=metric,
        unit=unit,
        rivals=options.pick_rivals(tuple(r for r in PRIMITIVES if r not in WITHOUT.get(operation, ()))),
        measure=measure,
        remark=_remark("greenlet alone is the floor"),
        baseline="gevent",
    )


def cases(options: Options) -> list[Case]:
    if options.quick:
        return [_primitive_case(options, "switch")]
    # Threads need minutes for 2000 connections.
    workers = 200 if options.core else 2000
    return [
        _talk_case(options, "protocol", 1000, 1_000_000, "talk 1: echo, 1000 connections"),
        _talk_case(options, "work", workers, 100_000, f"talk 2: CPU work, {workers} connections"),
        *(_echo_case(options, count) for count in options.pick_connections(10, 100, 1000)),
        _idle_case(options, 2000),
        *(_primitive_case(options, operation) for operation in OPERATIONS),
        *(_wsgi_case(options, 1024, count) for count in options.pick_connections(10, 300)),
    ]
