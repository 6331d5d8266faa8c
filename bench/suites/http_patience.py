"""http with time or memory as the metric: idle connections, slow readers, responses that should not wait.

A server could be cheaper in the other rows by delaying responses, or by buffering everything that an application sends.
These rows would show it.

Both sides: the same ASGI or WSGI application; nginx serves a file of the same size.
Kept: all connections, and what the server keeps for a client that does not read.
Thrown away: in the rows with idle connections, each request and its response.
Window: memory is read before the connections and when the server rests with all of them; delays are those of requests
at a fixed, low rate.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.catalogue import FLOOR, SUBJECT, Serve
from bench.http_servers import NGINX, SUBJECT_GREEN, SUBJECT_THREADS, start
from bench.model import Case, Sample, Settings
from bench.rivals.cpu_work import AFTER_ANSWER_S
from bench.served import Load, measure_server
from bench.suites.idle import measure_idle
from bench.suites.options import Options, size_text

UVICORN = "uvicorn on uvloop"
HTTP = Serve("http")
IDLE_RIVALS = (FLOOR, SUBJECT, UVICORN, f"uvicorn on {SUBJECT}", "granian", NGINX, "go")
UNREAD_RIVALS = (SUBJECT, UVICORN, f"uvicorn on {SUBJECT}", "granian", "hypercorn on uvloop")
#: More than the sockets' buffers hold: the kernel accepts about 2.5 MiB on loopback.
LONG_ANSWER = 8 << 20
#: Slow enough that a server is idle before each request.
REQUESTS_PER_S = 20.0
#: The quickest tenth: other work on the machine delays some responses; a server that delays responses delays all.
QUICKEST = 0.1
AFTER_RIVALS = {
    "http": (SUBJECT, UVICORN, f"uvicorn on {SUBJECT}", "granian", "hypercorn on uvloop"),
    "wsgi": (SUBJECT_THREADS, SUBJECT_GREEN, "granian", "gunicorn-gthread", "gunicorn-gevent", "pywsgi"),
}


def _idle_case(options: Options, count: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        load = Load("http", hold="answered")
        if rival != NGINX:
            return measure_idle(rival, count, settings, start, HTTP, load)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            (Path(folder) / str(load.size)).write_bytes(b"x" * load.size)
            return measure_idle(rival, count, settings, start, Serve("static", path=folder), load)

    return Case(
        suite="http",
        name=f"{count:,} idle connections",
        params={"connections": count},
        metric="bytes_per_item",
        unit="private memory per connection",
        rivals=options.pick_rivals(IDLE_RIVALS),
        measure=measure,
        remark="each served one request of 1 KiB before; the kernel's memory for a socket is not counted; "
        "oneloop's target: at most 1.5 KB",
        baseline=UVICORN,
        beside=("granian", "go", NGINX),
    )


def _unread_case(options: Options, name: str, load: Load, count: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_idle(rival, count, settings, start, HTTP, load)

    return Case(
        suite="http",
        name=f"{name}, {count} readers that do not read",
        params={"connections": count, "size": load.size},
        metric="bytes_per_item",
        unit="private memory per connection",
        rivals=options.pick_rivals(UNREAD_RIVALS),
        measure=measure,
        remark="measured when the server is idle; then every response is read and checked",
        baseline=UVICORN,
        beside=("granian",),
    )


def _after_case(options: Options, form: str) -> Case:
    load = Load("http", 1024, connections=4, rate=REQUESTS_PER_S, target="/after/1024")

    def measure(rival: str, settings: Settings) -> Sample:
        sample = measure_server(rival, Serve(form), load, settings, start)
        sample.metrics["first_ns"] = dict(sample.curve)[QUICKEST]
        return sample

    work = f"{AFTER_ANSWER_S * 1000:.0f} ms"
    return Case(
        suite="http",
        name=f"{'ASGI' if form == 'http' else 'WSGI'}, answered before {work} of computing",
        params={"form": form, "size": load.size},
        metric="first_ns",
        unit="time from the request to its answer, the quickest tenth",
        rivals=options.pick_rivals(AFTER_RIVALS[form]),
        measure=measure,
        remark=f"{REQUESTS_PER_S:.0f} requests per second; servers that delay responses need more than {work} each",
        baseline=UVICORN if form == "http" else "granian",
    )


def cases(options: Options) -> list[Case]:
    parts = Load("http", LONG_ANSWER, target=f"/parts/{LONG_ANSWER}", hold="unread")
    whole = Load("http", 102_400, hold="unread")
    return [
        *(_idle_case(options, count) for count in options.pick_connections(10_000, core=(10_000,))),
        _unread_case(options, size_text(whole.size), whole, 200),
        _unread_case(options, "8 MiB in parts of 64 KiB", parts, 100),
        *(_after_case(options, form) for form in AFTER_RIVALS),
    ]
