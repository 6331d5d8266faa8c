"""http with two workers on two CPUs against one on one: what a second worker adds to the cost of a request.

```text
kept connections       50 for each worker; the workers share nothing but the listening socket
a connection each      50 clients for each worker; every connection is accepted by one of the workers
```

Both sides: the same ASGI application, each server's own way to share a port: one listening socket or one per worker.
The one worker is measured right before the two, in the same way: pinned to no CPU, while the load generator sleeps when
it waits and takes its share of the CPUs.
Kept: the connections, except in the row with a connection for each request.
Thrown away: each request and its response.
Window: the generator's closed loop of fixed length, until all processes of the server rest. The figure is the CPU time
of the parent and both workers for a request. `parent` is the parent's part of it, `busiest` and `idlest` are the
workers' parts of the workers' time: equal if both get as much to do. `wake-ups` counts how often a worker slept and was
woken for a request: more than one for a connection means that workers wake up for the others' connections.
"""

from __future__ import annotations

from dataclasses import replace

from bench.catalogue import SUBJECT, Serve
from bench.http_servers import start
from bench.model import Case, Sample, Settings
from bench.served import Load, measure_server
from bench.suites.options import Options, size_text

UVICORN = "uvicorn on uvloop"
RIVALS = (SUBJECT, UVICORN, "granian")
KIB = 1024
WORKERS = 2
CONNECTIONS = 50
#: The generator's mode, and what the row is called.
ROWS = {"http": "kept connections", "once": "a connection for each request"}


def _case(options: Options, mode: str, connections: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        everywhere = replace(settings, server_cpu=None, generator_cpu=None)
        one, many = (
            measure_server(
                rival,
                Serve("http", workers=workers, cpus=workers),
                Load(mode, KIB, connections * workers),
                everywhere,
                start,
            )
            for workers in (1, WORKERS)
        )
        many.metrics["one_worker_ns"] = one.metrics["server_cpu_ns"]
        return many

    return Case(
        suite="http",
        name=f"ASGI, two workers, {ROWS[mode]}, {size_text(KIB)}, {connections} connections for each",
        params={"form": "http", "size": KIB, "connections": connections, "workers": WORKERS},
        metric="server_cpu_ns",
        unit="CPU per request, of the parent and both workers",
        rivals=options.pick_rivals(RIVALS),
        measure=measure,
        remark="oneloop's target: at most 1.05 x its one worker",
        baseline=UVICORN,
        beside=("granian",),
        also=("one_worker_ns", "parent_cpu_ns", "wakeups"),
    )


def cases(options: Options) -> list[Case]:
    return [_case(options, mode, CONNECTIONS) for mode in ROWS]
