"""`oneloop run --stats`: a table of every loop's statistics on stderr when the program ends."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent

import pytest

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


FORKS = """
    import asyncio, multiprocessing, os, sys

    async def main(ticks):
        for _ in range(ticks):
            await asyncio.sleep(0)

    def work():
        asyncio.run(main(50))

    if __name__ == "__main__":
        asyncio.run(main(1))
        if sys.argv[1] == "fork":
            pid = os.fork()
            if not pid:
                work()
                sys.exit()
            os.waitpid(pid, 0)
        else:
            child = multiprocessing.get_context(sys.argv[1]).Process(target=work)
            child.start()
            child.join()
"""


@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
def test_children_print_a_table_of_their_own_loops(tmp_path: Path, way: str) -> None:
    (tmp_path / "program.py").write_text(dedent(FORKS))
    done = run(*ONELOOP_RUN, "--stats", "program.py", way, cwd=tmp_path, env={"PYTHONWARNINGS": ""})
    assert done.returncode == 0, done.stderr
    tables = re.split(r"^oneloop statistics", done.stderr, flags=re.MULTILINE)[1:]
    assert [bool(re.match(r" of process \d+\n", table)) for table in tables] == [True, False], done.stderr
    assert [len(row(table, "ticks")) for table in tables] == [1, 1]
    assert int(row(tables[0], "ticks")[0]) > 50


def test_multiprocessings_children_by_fork_print_a_table(tmp_path: Path) -> None:
    text = dedent(FORKS).replace('sys.argv[1] == "fork"', "False")
    (tmp_path / "program.py").write_text(text)
    done = run(*ONELOOP_RUN, "--stats", "program.py", "fork", cwd=tmp_path, env={"PYTHONWARNINGS": ""})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("oneloop statistics of process ") == 1
    assert done.stderr.count("oneloop statistics\n") == 1


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
