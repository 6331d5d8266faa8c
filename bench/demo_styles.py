"""The demo's second part: one small job, written in eight styles.

31 URLs whose statuses are counted, and 365 days of a JSON API. The server needs 20 ms for each response.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from bench.catalogue import has_module, missing_reason
from bench.model import Case, Result, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import START_PATIENCE_S, Program
from bench.report import figures
from bench.report.document import case_data
from bench.rivals.styles import OWN_COROUTINES, OWN_GREEN, PROCESSES, STYLES, THREADS
from bench.timed import measure_program, python_module

LATENCY_S = 0.02
PATIENCE_S = 90.0
TITLES = {
    "statuses": "31 URLs, 20 ms each: their statuses are counted",
    "days": "365 days of a JSON API, 20 ms each",
}
NEEDS = {
    "threads": ("requests",),
    "processes": ("requests",),
    "asyncio": ("aiohttp",),
    "uvloop": ("aiohttp", "uvloop"),
    "oneloop coroutines": ("aiohttp",),
    OWN_COROUTINES: (),
    "oneloop green": ("requests", "greenlet"),
    OWN_GREEN: ("greenlet",),
}


def measure_style(style: str, job: str, settings: Settings) -> Sample:
    """One run. The program may use all CPUs; otherwise processes would have no advantage."""
    lacking = [name for name in NEEDS[style] if not has_module(name)]
    if lacking:
        raise RivalMissingError(f"{', '.join(lacking)} is not installed")
    reason = missing_reason("oneloop") if style.startswith("oneloop") else ""
    if reason:
        raise RivalMissingError(reason)
    with Program(python_module("url_server", "--latency", str(LATENCY_S)), None) as server:
        word, _, port = server.read_line(START_PATIENCE_S).partition(" ")
        if word != "ready":
            raise RivalFailedError(f"printed {word!r} instead of `ready`")
        argv = python_module("styles", "--style", style, "--job", job, "--port", port)
        unpinned = Settings(rounds=settings.rounds)
        return measure_program(argv, unpinned, PATIENCE_S)


def _measure_of(job: str) -> Callable[[str, Settings], Sample]:
    return lambda style, settings: measure_style(style, job, settings)


def cases() -> list[Case]:
    return [
        Case("demo", title, {}, "wall_ns", "time in all", STYLES, _measure_of(job), baseline="asyncio")
        for job, title in TITLES.items()
    ]


def show(console: Console, result: Result) -> None:
    """The job's table."""
    case = case_data(result)
    table = Table(title=case["name"], title_justify="left")
    table.add_column("style")
    for heading in ("time", "× asyncio", "CPU/request", "workers"):
        table.add_column(heading, justify="right")
    for row in case["rows"]:
        if row["status"] != "ok":
            table.add_row(row["rival"], f"{row['status']}: {row['reason']}")
            continue
        ratio = figures.ratio(row["ratio"]) if "ratio" in row else "–"
        cells = [figures.median(row, name) for name in ("wall_ns", "cpu_ns_per_op")]
        style = "bold" if row["rival"].startswith("oneloop") else ""
        table.add_row(row["rival"], cells[0], ratio, cells[1], _workers(row["rival"]), style=style)
    console.print(table)


def _workers(style: str) -> str:
    return {"threads": f"{THREADS} threads", "processes": f"{PROCESSES} processes"}.get(style, "1 thread")
