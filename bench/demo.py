"""`python -m bench --demo`: the same unmodified programs on stock asyncio, uvloop and oneloop; one job in six styles.

An aiohttp server with an aiohttp client, and a protocol echo server with the native generator. Takes at most three
minutes. If a loop is not installed, its row says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import demo_styles, http_servers, machine, measure
from bench.catalogue import Serve, missing_reason
from bench.model import Case, Result, RivalFailedError, RivalMissingError, Row, Sample, Settings
from bench.process import Program
from bench.report import figures, html
from bench.report.document import RowData, case_data, document
from bench.rivals.styles import STYLES
from bench.runner import run_cases
from bench.served import Load, measure_server, running_server
from bench.timed import python_module

LOOPS = ("asyncio", "uvloop", "oneloop")
DURATION_S = 3.0
ROUNDS = 3
CLIENT_CONNECTIONS = 20
CLIENT_PATIENCE_S = 30.0


def measure_aiohttp(rival: str, settings: Settings) -> Sample:
    """Aiohttp's client and server, both on the rival's loop, each on a separate CPU."""

    def start(loop: str, serve: Serve) -> tuple[list[str], dict[str, str]]:
        argv, env = http_servers.start(f"aiohttp on {loop}", serve)
        return list(argv), env

    with running_server(rival, Serve("http"), settings, start) as (server, address):
        argv = python_module(
            "aiohttp_client", "--loop", rival, "--connections", str(CLIENT_CONNECTIONS),
            "--duration", str(settings.duration_s), *address,
        )  # fmt: skip
        with Program(argv, settings.generator_cpu) as client:
            if client.read_line(CLIENT_PATIENCE_S) != "ready":
                raise RivalFailedError("the client did not start")
            before = measure.read_usage(server.pid)
            client.tell("go")
            answer = json.loads(client.read_line(CLIENT_PATIENCE_S + settings.duration_s))
            after = measure.read_usage(server.pid)
    found = measure.server_metrics(before, after, int(answer.pop("messages")))
    return Sample({**found, **{name: float(value) for name, value in answer.items()}})


def measure_echo(rival: str, settings: Settings) -> Sample:
    """The protocol echo server with the native generator."""
    return measure_server(rival, Serve("protocol"), Load(size=1024, connections=50), settings)


Measure = Callable[[str, Settings], Sample]


def _guarded(measure: Measure) -> Measure:
    """A loop that is not installed counts as missing, not as failed."""

    def measure_if_there(rival: str, settings: Settings) -> Sample:
        reason = missing_reason(rival)
        if reason:
            raise RivalMissingError(reason)
        return measure(rival, settings)

    return measure_if_there


def cases() -> list[Case]:
    """The two programs."""
    programs: dict[str, Measure] = {
        f"aiohttp server and client, {CLIENT_CONNECTIONS} connections": measure_aiohttp,
        "protocol echo server, 1 KiB, 50 connections": measure_echo,
    }
    return [
        Case(
            suite="demo",
            name=title,
            params={},
            metric="server_cpu_ns",
            unit="CPU per request",
            rivals=LOOPS,
            measure=_guarded(measure),
        )
        for title, measure in programs.items()
    ]


def _cells(row: RowData) -> list[str]:
    if row["status"] != "ok":
        return [row["rival"], f"{row['status']}: {row['reason']}", "", "", "", ""]
    ratio = figures.ratio(row["ratio"]) if "ratio" in row else "–"
    names = ("throughput", "server_cpu_ns", "p50_ns", "p99_ns")
    texts = [figures.median(row, name) for name in names]
    return [row["rival"], texts[0], texts[1], ratio, *texts[2:]]


def show(console: Console, result: Result) -> None:
    """One program's table."""
    case = case_data(result)
    table = Table(title=case["name"], title_justify="left")
    table.add_column("loop")
    for heading in ("requests/s", "server CPU/request", f"× {case['baseline']}", "p50", "p99"):
        table.add_column(heading, justify="right")
    for row in case["rows"]:
        table.add_row(*_cells(row), style="bold" if row["rival"] == "oneloop" else "")
    console.print(table)


def main(console: Console, command: str, page: Path | None) -> int:
    """Runs both programs on all loops, then the styles.

    Args:
        console: where tables are printed.
        command: the command line, for the page.
        page: where the HTML page with the charts is saved.

    Returns:
        0, 1 if a loop failed, 130 if interrupted.
    """
    server_cpu, generator_cpu = machine.choose_cpus()
    settings = Settings(
        duration_s=DURATION_S,
        rounds=ROUNDS,
        server_cpu=server_cpu,
        generator_cpu=generator_cpu,
    )
    console.print("The same unmodified programs on three event loops. This takes about a minute.")
    begin = time.monotonic()

    def observe(case: Case, number: int, rival: str, row: Row) -> None:
        if console.is_terminal:
            text = f"  {case.name}, round {number + 1} of {settings.rounds}: {rival}"
            console.print(text.ljust(console.width - 1)[: console.width - 1], end="\r", style="dim", highlight=False)

    def finished(result: Result) -> None:
        (demo_styles.show if result.case.rivals == STYLES else show)(console, result)

    results, interrupted = run_cases([*cases(), *demo_styles.cases()], settings, observe, finished)
    if page is not None:
        doc = document(results, settings, command, machine.describe(), machine.versions(), [], interrupted)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html.page(doc), encoding="utf-8")
        console.print(f"Charts: {page.resolve()}", soft_wrap=True, highlight=False)
    console.print(f"{time.monotonic() - begin:.0f} s. `make bench` runs all benchmarks.")
    if interrupted:
        return 130
    return int(any(row.status == "failed" for result in results for row in result.rows))
