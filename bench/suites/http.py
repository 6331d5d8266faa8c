"""http: servers of ASGI, WSGI and WebSocket applications, every byte of every body checked.

Each case names the rivals for its ratios; the remark gives the target for oneloop. Cases of memory or delays (idle
connections, slow readers, answers before the end of a computation) are in `http_patience`, requests of browsers and
two CPUs in `http_cores`, two workers against one in `http_workers`, the start of a server in `http_start`.

Both sides: the same ASGI or WSGI application; aiohttp, httptools, websockets, tornado, Node and Go have handlers that
make the same responses. They parse the request, make the body anew and send it with its length. The bare httptools
protocol and the floor make no ASGI scope.
Kept: the connections, except in the rows with a connection for each request.
Thrown away: each request and its response.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.catalogue import FLOOR, SUBJECT, Serve
from bench.http_servers import NGINX, NGINX_CACHED, NGINX_CACHED_CORK, SUBJECT_GREEN, SUBJECT_THREADS, start
from bench.model import Case, Sample, Settings
from bench.served import Load, measure_server
from bench.suites import http_cores, http_first_byte, http_patience, http_start, http_workers
from bench.suites.options import LOOP_RIVALS, Options, size_text

UVICORN = "uvicorn on uvloop"
OURS_UNDER_UVICORN = f"uvicorn on {SUBJECT}"
PIPELINED = 16
KIB = 1024


@dataclass(frozen=True)
class Row:
    """The common part of several cases: the rivals, what they serve, and the rivals for ratios."""

    what: str
    serve: Serve
    rivals: Sequence[str]
    target: str
    baseline: str = UVICORN
    beside: Sequence[str] = ()
    unit: str = "CPU per request"

    def case(self, options: Options, load: Load, name: str = "") -> Case:
        """A case with one load for all rivals."""

        def measure(rival: str, settings: Settings) -> Sample:
            return measure_server(rival, self.serve, load, settings, start)

        return Case(
            suite="http",
            name=name or f"{self.what}, {size_text(load.size)}, {load.connections} connections",
            params={"form": self.serve.form, "size": load.size, "connections": load.connections},
            metric="server_cpu_ns",
            unit=self.unit,
            rivals=options.pick_rivals(self.rivals),
            measure=measure,
            remark=f"oneloop's target: {self.target}" if self.target else "",
            baseline=self.baseline,
            beside=self.beside,
        )


ON_LOOPS = tuple(f"{program} on {loop}" for program in ("httptools", "aiohttp", "uvicorn") for loop in LOOP_RIVALS)
ASGI_RIVALS = ("granian", "fastpysgi", "socketify", "uvicorn-zttp on uvloop")
#: What serves plain pages without an ASGI application. The httptools protocol never closes a connection itself.
BARE_RIVALS = ("httptools on uvloop", "httptools on rloop", "aiohttp on uvloop")
ASGI = Row(
    "ASGI",
    Serve("http"),
    (FLOOR, SUBJECT, *ON_LOOPS, *ASGI_RIVALS, "hypercorn on uvloop", "tornado", "node", "go"),
    "1 KiB at most 0.75 x go, 0.65 x granian, 0.45 x uvicorn on uvloop (9 us); 10 and 100 KiB at most 0.80 x go",
    beside=(UVICORN, "granian", "go"),
)
PIPELINE = Row(
    f"pipelined x{PIPELINED}",
    Serve("http"),
    (FLOOR, SUBJECT, UVICORN, OURS_UNDER_UVICORN, *ASGI_RIVALS, *BARE_RIVALS, "node", "go"),
    "at most 0.5 x granian",
    baseline="granian",
    beside=(UVICORN, "go"),
)
CLOSING = Row(
    "a connection for each request",
    Serve("http"),
    (FLOOR, SUBJECT, UVICORN, OURS_UNDER_UVICORN, *ASGI_RIVALS, "aiohttp on uvloop", "node", "go"),
    "",
    beside=("granian", "go"),
    unit="CPU per connection with its request",
)
POST = Row(
    "POST echoed",
    Serve("http"),
    (SUBJECT, UVICORN, OURS_UNDER_UVICORN, *ASGI_RIVALS, *BARE_RIVALS, "go"),
    "at most 0.7 x granian",
    baseline="granian",
    beside=(UVICORN, "go"),
)
WEBSOCKET = Row(
    "WebSocket echo",
    Serve("websocket"),
    (
        SUBJECT,
        UVICORN,
        OURS_UNDER_UVICORN,
        "uvicorn-wsproto on uvloop",
        "granian",
        "websockets on asyncio",
        "websockets on uvloop",
        f"websockets on {SUBJECT}",
        "hypercorn on uvloop",
    ),
    "at most 0.5 x uvicorn with websockets, 0.8 x granian",
    beside=(UVICORN, "granian"),
    unit="CPU per message",
)
WSGI_RIVALS = (
    SUBJECT_THREADS,
    SUBJECT_GREEN,
    "granian",
    "fastpysgi",
    "socketify",
    "gunicorn-gthread",
    "gunicorn-gevent",
    "pywsgi",
)
WSGI = Row(
    "WSGI",
    Serve("wsgi"),
    WSGI_RIVALS,
    "threads at most 0.9 x granian; green at most 9 us",
    baseline="granian",
    beside=("pywsgi",),
)
FASTAPI = Row(
    "FastAPI hello",
    Serve("fastapi"),
    (SUBJECT, UVICORN, OURS_UNDER_UVICORN, *ASGI_RIVALS, "hypercorn on uvloop"),
    "",
    beside=("granian",),
)
FLASK = Row("Flask hello", Serve("flask"), WSGI_RIVALS, "", baseline="granian", beside=("gunicorn-gthread",))
# gunicorn's sync worker does not keep connections open.
FLASK_CLOSING = Row(
    "Flask hello, a connection for each request",
    Serve("flask"),
    (*WSGI_RIVALS, "gunicorn-sync"),
    "",
    baseline="granian",
    beside=("gunicorn-sync", "gunicorn-gthread"),
    unit="CPU per connection with its request",
)


def _static_case(options: Options, size: int, connections: int) -> Case:
    load = Load("http", size, connections, target=f"/static/{size}")

    def measure(rival: str, settings: Settings) -> Sample:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            file = Path(folder) / "static" / str(size)
            file.parent.mkdir()
            file.write_bytes(b"x" * size)
            return measure_server(rival, Serve("static", path=folder), load, settings, start)

    return Case(
        suite="http",
        name=f"static file, {size_text(size)}, {connections} connections",
        params={"form": "static", "size": size, "connections": connections},
        metric="server_cpu_ns",
        unit="CPU per request",
        rivals=options.pick_rivals((SUBJECT, NGINX, NGINX_CACHED, NGINX_CACHED_CORK, "granian")),
        measure=measure,
        remark="the file is in the page cache; nginx with sendfile, nginx-cached with open_file_cache, so that it "
        "serves a replaced file for up to a minute, and without tcp_nopush, which nginx-cached-cork has; oneloop's "
        "target: at most 1.3 x nginx",
        baseline=NGINX,
        beside=(NGINX_CACHED, "granian"),
    )


def _asgi(options: Options) -> list[Case]:
    """1 KiB on few and on many connections, larger responses on few."""
    found = []
    for size in options.pick_sizes(KIB, 10 * KIB, 100 * KIB, core=(KIB, 100 * KIB)):
        natural = (10, 100, 300) if size == KIB else (10, 100)
        found += [ASGI.case(options, Load("http", size, count)) for count in options.pick_connections(*natural)]
    return found


def _wsgi(options: Options) -> list[Case]:
    return [
        WSGI.case(options, Load("http", size, count))
        for size in options.pick_sizes(KIB)
        for count in options.pick_connections(10, 100)
    ]


def _messages(options: Options, row: Row, mode: str, *sizes: int) -> list[Case]:
    return [
        row.case(options, Load(mode, size, count))
        for size in options.pick_sizes(*sizes, core=sizes[:1])
        for count in options.pick_connections(10)
    ]


def _others(options: Options) -> list[Case]:
    hello = (
        (FASTAPI, Load("http", 17, 10, target="/hello", expect='{"hello":"world"}')),
        (FLASK, Load("http", 12, 10, target="/hello", expect="hello, world")),
        (FLASK_CLOSING, Load("once", 12, 10, target="/hello", expect="hello, world")),
    )
    return [
        *_wsgi(options),
        *_messages(options, WEBSOCKET, "websocket", 125, 10 * KIB),
        *(
            PIPELINE.case(options, Load("http", size, count, PIPELINED))
            for size in options.pick_sizes(KIB)
            for count in options.pick_connections(10)
        ),
        *_messages(options, POST, "post", 10 * KIB, 100 * KIB),
        *(_static_case(options, size, 10) for size in options.pick_sizes(10 * KIB)),
        *_messages(options, CLOSING, "once", KIB),
        *(row.case(options, load, f"{row.what}, {load.connections} connections") for row, load in hello),
        *http_cores.cases(options),
        *http_workers.cases(options),
        *http_start.cases(options),
        *http_patience.cases(options),
        *http_first_byte.cases(options),
    ]


def cases(options: Options) -> list[Case]:
    found = _asgi(options)
    return found if options.quick else [*found, *_others(options)]
