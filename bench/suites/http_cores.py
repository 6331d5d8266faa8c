"""http with requests as browsers send them, and on two CPUs with one worker and with two.

```text
requests     ten headers, three cookies among them; the application looks for its cookie and answers with six headers
two CPUs     one worker, not pinned: what a server's own threads gain; Go with GOMAXPROCS=2
two workers  one process for each CPU, the listening socket is shared or per worker, as each server does by default
```

Both sides: the same ASGI application; Go, aiohttp and httptools have handlers that do the same. In the rows with two
CPUs the load generator has no CPU of its own: it sleeps while it waits, and takes its share of both. Throughput and
latency are those of the whole machine.
Kept: the connections.
Thrown away: each request and its response.
Window: the generator's closed loop of fixed length, until all processes of the server rest.
"""

from __future__ import annotations

from dataclasses import replace

from bench.catalogue import SUBJECT, Serve
from bench.http_servers import start
from bench.model import Case, Sample, Settings
from bench.served import Load, measure_server
from bench.suites.options import Options, size_text

UVICORN = "uvicorn on uvloop"
OURS_UNDER_UVICORN = f"uvicorn on {SUBJECT}"
KIB = 1024
#: What a browser sends, less `Host`, which the generator adds: ten headers in all.
BROWSER_HEADERS = (
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Referer: https://example.org/account/orders?page=2",
    "Cookie: theme=dark; session=c2Vzc2lvbi1vZi1hLXVzZXItb2YtdGhlLXNpdGU.aBcDeF.0123456789; consent=20261120-all",
    "Sec-Fetch-Site: same-origin",
    "Cache-Control: max-age=0",
    "X-Request-Id: 6f1a2c9e-0b2d-4e57-9a54-1d3f7be0c9aa",
)
#: Servers that run the same ASGI application, and handlers that do the same.
BROWSER_RIVALS = (
    SUBJECT, UVICORN, OURS_UNDER_UVICORN, "granian", "fastpysgi", "socketify", "uvicorn-zttp on uvloop",
    "hypercorn on uvloop", "httptools-cookies on uvloop", "httptools-cookies on rloop", "aiohttp on uvloop", "go",
)  # fmt: skip
CPUS_RIVALS = (SUBJECT, UVICORN, "granian", "go")
ONE_WORKER_RIVALS = (
    *CPUS_RIVALS, "fastpysgi", "socketify", "httptools on uvloop", "httptools on rloop", "aiohttp on uvloop",
)  # fmt: skip


def _browser_case(options: Options, connections: int) -> Case:
    load = Load("http", KIB, connections, target=f"/session/{KIB}", headers=BROWSER_HEADERS)

    def measure(rival: str, settings: Settings) -> Sample:
        return measure_server(rival, Serve("http"), load, settings, start)

    return Case(
        suite="http",
        name=f"ASGI, requests of a browser, {size_text(KIB)}, {connections} connections",
        params={"form": "http", "size": KIB, "connections": connections},
        metric="server_cpu_ns",
        unit="CPU per request",
        rivals=options.pick_rivals(BROWSER_RIVALS),
        measure=measure,
        remark="ten headers with three cookies; the application finds its cookie; the response has six headers",
        baseline=UVICORN,
        beside=("granian", "go"),
    )


def _cpus_case(options: Options, workers: int, connections: int) -> Case:
    load = Load("http", KIB, connections)
    serve = Serve("http", workers=workers, cpus=2)

    def measure(rival: str, settings: Settings) -> Sample:
        everywhere = replace(settings, server_cpu=None, generator_cpu=None)
        sample = measure_server(rival, serve, load, everywhere, start)
        sample.metrics["ns_per_op"] = 1e9 / sample.metrics["throughput"]
        return sample

    kind = "one worker" if workers == 1 else "two workers"
    return Case(
        suite="http",
        name=f"ASGI, {kind} on two CPUs, {size_text(KIB)}, {connections} connections",
        params={"form": "http", "size": KIB, "connections": connections, "workers": workers},
        metric="server_cpu_ns" if workers == 1 else "ns_per_op",
        unit="CPU per request" if workers == 1 else "time per request of all workers together",
        rivals=options.pick_rivals(ONE_WORKER_RIVALS if workers == 1 else CPUS_RIVALS),
        measure=measure,
        remark="the load generator shares both CPUs; Go has GOMAXPROCS=2 and no workers",
        baseline=UVICORN,
        beside=("granian", "go"),
        also=("p99_ns",),
    )


def cases(options: Options) -> list[Case]:
    return [
        *(_browser_case(options, count) for count in options.pick_connections(10)),
        _cpus_case(options, 1, 10),
        _cpus_case(options, 2, 100),
    ]
