"""`python -m bench --demo`: the six rows of the README, measured here, and one job in eight styles.

It takes about a minute. Each row has oneloop beside what is mostly used today. What is not installed has a row that
says so, and the rest runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import demo_styles, machine
from bench.catalogue import has_module
from bench.model import Case, Result, RivalMissingError, Row, Sample, Settings
from bench.record import plan
from bench.report import figures, html
from bench.report.document import case_data, document
from bench.report.pictures import told
from bench.rivals.styles import STYLES
from bench.runner import run_cases
from bench.story import STORY, Chapter

DURATION_S = 0.7
ROUNDS = 3
NEEDS = {
    "uvicorn on uvloop": ("uvicorn", "uvloop"),
    "gunicorn-gthread": ("gunicorn", "flask"),
    "threads on oneloop": ("flask",),
    "httpx2 on uvloop": ("httpx2", "uvloop"),
    "aiofiles": ("aiofiles",),
    "gevent": ("gevent",),
    "uvloop": ("uvloop",),
}
"""The packages that a rival needs. `requirements/demo.txt` has them."""


def _measured(measure: Callable[[str, Settings], Sample], rival: str, settings: Settings) -> Sample:
    """A rival that is not installed counts as missing, not as failed."""
    lacking = [name for name in NEEDS.get(rival, ()) if not has_module(name)]
    if lacking:
        raise RivalMissingError(f"{', '.join(lacking)} is not installed")
    return measure(rival, settings)


def cases() -> list[Case]:
    """The six rows: the cases of the record with two rivals each."""
    found = {case.name: case for suite in {chapter.suite: None for chapter in STORY} for case in _of(suite)}
    made = []
    for chapter in STORY:
        case = found[chapter.name]
        rivals = (chapter.theirs, chapter.ours)
        measure = partial(_measured, case.measure)
        made.append(
            replace(case, name=chapter.case, rivals=rivals, measure=measure, baseline=chapter.theirs, beside=())
        )
    return made


def _of(suite: str) -> list[Case]:
    return [replace(case, name=f"{case.suite}: {case.name}") for case in plan.cases(suite)]


def show(console: Console, results: list[Result]) -> None:
    """The table of the six rows. A row without a figure says why."""
    table = Table(title="CPU time per request or message, for files the time of a call", title_justify="left")
    for heading in ("", "today", ""):
        table.add_column(heading)
    for heading in ("oneloop", "ratio"):
        table.add_column(heading, justify="right")
    data = [case_data(result) for result in results]
    rows = {row.chapter: row for row in told(data)}
    for chapter in STORY:
        row = rows.get(chapter)
        if row is None:
            table.add_row(chapter.title, chapter.label, _why(chapter, results))
        else:
            table.add_row(chapter.title, chapter.label, row.theirs, row.ours, figures.ratio(row.ratio))
    console.print(table)


def _why(chapter: Chapter, results: list[Result]) -> str:
    for result in results:
        if (result.case.suite, result.case.name) == (chapter.suite, chapter.case):
            return next((f"{row.status}: {row.reason}" for row in result.rows if row.status != "ok"), "not measured")
    return "not measured"


def main(console: Console, command: str, page: Path | None) -> int:
    """Measures the six rows, then the styles.

    Args:
        console: where tables are printed.
        command: the command line, for the page.
        page: where the HTML page with the charts is saved.

    Returns:
        0, 1 if a rival failed, 130 if interrupted.
    """
    server_cpu, generator_cpu = machine.choose_cpus()
    settings = Settings(
        duration_s=DURATION_S,
        warmup_s=0.2,
        rounds=ROUNDS,
        server_cpu=server_cpu,
        generator_cpu=generator_cpu,
        scale=0.2,
    )
    console.print("Six kinds of work, each with what is mostly used for it today and with oneloop: about a minute.")
    begin = time.monotonic()

    def observe(case: Case, number: int, rival: str, row: Row) -> None:
        if console.is_terminal:
            text = f"  {case.name}, round {number + 1} of {settings.rounds}: {rival}"
            console.print(text.ljust(console.width - 1)[: console.width - 1], end="\r", style="dim", highlight=False)

    def finished(result: Result) -> None:
        if result.case.rivals == STYLES:
            demo_styles.show(console, result)
        elif not console.is_terminal:
            # In a log, which has no line of progress.
            console.print(
                f"  {time.monotonic() - begin:3.0f} s  {result.case.suite}: {result.case.name}", highlight=False
            )

    results, interrupted = run_cases(cases(), settings, observe, finished)
    show(console, results)
    if not interrupted:
        console.print("One job, in eight styles:")
        more, interrupted = run_cases(demo_styles.cases(), replace(settings, rounds=1, scale=1.0), observe, finished)
        results += more
    if page is not None:
        doc = document(results, settings, command, machine.describe(), machine.versions(), [], interrupted)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html.page(doc), encoding="utf-8")
        console.print(f"Charts: {page.resolve()}", soft_wrap=True, highlight=False)
    console.print(f"{time.monotonic() - begin:.0f} s. `make bench` runs all benchmarks.")
    if interrupted:
        return 130
    return int(any(row.status == "failed" for result in results for row in result.rows))
