"""http: responses of 1, 10, 100 KiB on 10 and 300 kept connections, every byte of every body checked.

oneloop has no HTTP server of its own yet; what is measured is aiohttp, httptools and uvicorn on its loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.catalogue import FLOOR, Serve, has_module, missing_reason, server_argv, server_env
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.rivals.loops import MODULES as LOOPS
from bench.served import Load, measure_server
from bench.suites.options import LOOP_RIVALS, Options, size_text
from bench.timed import python_module

ON_LOOPS = ("httptools", "aiohttp", "uvicorn")
RIVALS = (
    FLOOR,
    *(f"{program} on {loop}" for program in ON_LOOPS for loop in LOOP_RIVALS),
    "granian",
    "pywsgi",
    "tornado",
    "node",
    "go",
)
REMARK = (
    "suite subject does not exist yet: oneloop has no HTTP server; other servers run on its loop. "
    "A program is compared with itself on uvloop, the other servers with httptools on uvloop"
)


def start(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    """The command of an HTTP rival. Raises RivalMissingError."""
    program, _, loop = rival.partition(" on ")
    if loop in LOOPS:
        reason = missing_reason(loop) or ("" if has_module(program) else f"{program} is not installed")
        if reason:
            raise RivalMissingError(reason)
        return python_module("asyncio_http", "--loop", loop, "--form", program), {}
    if rival in ("granian", "pywsgi"):
        module = "gevent" if rival == "pywsgi" else rival
        if not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
        return python_module(f"{rival}_server"), {}
    return server_argv(rival, serve), server_env(rival)


def _case(options: Options, size: int, connections: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_server(rival, Serve("http"), Load("http", size, connections), settings, start)

    return Case(
        suite="http",
        name=f"{size_text(size)}, {connections} connections",
        params={"size": size, "connections": connections},
        metric="server_cpu_ns",
        unit="CPU per request",
        rivals=options.pick_rivals(RIVALS),
        measure=measure,
        remark=REMARK,
        baseline="httptools on uvloop",
    )


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024,))
    return [_case(options, size, count) for size in sizes for count in options.pick_connections(10, 300)]
