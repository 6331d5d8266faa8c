"""`oneloop run --stats`: a table of every loop's statistics on stderr when the program ends."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent

import oneloop
from oneloop.cli.stats import COLUMNS_MAX, _Log, table
from tests.cli.command import ONELOOP_RUN, run

PROGRAM = """
    import asyncio, oneloop

    async def main():
        await asyncio.sleep(0)

    asyncio.run(main())
    oneloop.run(main())
    left_open = asyncio.new_event_loop()
    left_open.call_later(60, print)
"""


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.removeprefix(name).split()


def test_every_loop_has_a_column(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    done = run(*ONELOOP_RUN, "--stats", "program.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr.startswith("oneloop statistics\n")
    first, second, third = row(done.stderr, "ticks")
    assert int(first) > 0
    assert int(second) > 0
    assert third == "0"
    assert row(done.stderr, "timers pending") == ["0", "0", "1"]


def test_program_that_fails_is_reported_before_the_table(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM) + "\n1 / 0\n")
    done = run(*ONELOOP_RUN, "--stats", "program.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.index("ZeroDivisionError") < done.stderr.index("oneloop statistics")


def test_program_without_loops_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('hello')")
    done = run(*ONELOOP_RUN, "--stats", "program.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("hello\n", "oneloop statistics\nthis process created no oneloop event loop\n")


def one(**counters: object) -> oneloop.Statistics:
    zero = dict.fromkeys((field.name for field in fields(oneloop.Statistics)), 0)
    return oneloop.Statistics(**{**zero, "longest_callback_name": "f", **counters})  # type: ignore[arg-type]


def test_table_names_every_counter_and_adds_up_what_has_no_column() -> None:
    many = [one(ticks=1_000 * n, longest_tick_s=0.001 * n, loop_lag_s=0.002 * n) for n in range(COLUMNS_MAX + 3)]
    text = table(many)
    head, *lines = text.splitlines()
    assert head.endswith("  3 more")
    assert len(lines) == len(fields(oneloop.Statistics))
    assert row(text, "ticks")[1] == "1,000"
    assert row(text, "ticks")[-1] == f"{sum(range(COLUMNS_MAX, COLUMNS_MAX + 3)) * 1_000:,}"
    assert row(text, "longest tick")[-2:] == ["8.000", "ms"]
    assert row(text, "loop lag")[-2:] == ["16.000", "ms"]
    assert row(text, "longest callback name") == ["f"] * COLUMNS_MAX
    assert replace(many[0], ticks=1) != many[0]


def test_columns_have_the_order_in_which_loops_were_made() -> None:
    log = _Log()
    first, second = oneloop.Loop(), oneloop.Loop()
    for loop in first, second:
        log.made(loop)
    first.call_later(60, print)
    log.closing(second)
    log.closing(second)
    second.close()
    assert [statistics.timers_pending for statistics in log.statistics()] == [1, 0]
    first.close()
