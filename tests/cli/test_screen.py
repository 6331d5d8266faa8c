"""The table of `oneloop top`: numbers, names and columns, from snapshots that are written here."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from oneloop.cli import screen
from oneloop.cli.screen import COMMAND_MAX, Screen, text


def loop(**changes: object) -> dict[str, Any]:
    """A loop of a snapshot, in which nothing has happened."""
    names = ["ticks", "callbacks", "bytes_in", "bytes_out", "open_transports", "green_threads", "file_operations"]
    seconds = ["loop_lag_s", "longest_callback_s", "recent_longest_callback_s"]
    empty = dict.fromkeys(["busy_s", "busy_with", "longest_callback_name", "recent_longest_callback_name"])
    return {**dict.fromkeys([*names, *seconds], 0), **empty, "number": 1, "state": "sleeping", **changes}


def process(pid: int, time_s: float, *loops: dict[str, Any], argv: tuple[str, ...] = ("program.py",)) -> dict[str, Any]:
    return {"pid": pid, "argv": argv, "oneloop": "1", "python": "3", "time_s": time_s, "loops": list(loops)}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 µs"), (0.0009, "900 µs"), (0.001, "1.0 ms"), (0.0099, "9.9 ms"), (0.5, "500.0 ms"), (1, "1.0 s")],
)
def test_durations(value: float, shown: str) -> None:
    assert screen._seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"), (1536 << 20, "1.5 GiB"), (1 << 40, "1024.0 GiB")],
)
def test_amounts(value: float, shown: str) -> None:
    assert screen._bytes(value) == shown


def test_long_command_lines_are_cut() -> None:
    assert screen.command({"argv": ["x" * COMMAND_MAX]}) == "x" * COMMAND_MAX
    assert screen.command({"argv": ["x" * (COMMAND_MAX + 1)]}) == "x" * (COMMAND_MAX - 1) + "…"
    assert screen.command({"argv": ["a b"]}) == "'a b'"
    assert screen.command({"argv": []}) == "?"


@pytest.mark.parametrize(
    ("busy_s", "busy_with", "shown"),
    [
        (None, None, "200.0 ms late"),
        (0.15, "now", "200.0 ms late"),
        (0.2, "now", "200.0 ms late"),
        (0.25, "now", "250.0 ms so far, in now"),
        (0.25, None, "250.0 ms so far, in a callback"),
    ],
)
def test_longest_callback_is_the_one_that_runs_if_it_is(
    busy_s: float | None, busy_with: str | None, shown: str
) -> None:
    one = loop(busy_s=busy_s, busy_with=busy_with, recent_longest_callback_s=0.2, recent_longest_callback_name="late")
    assert screen._longest(one, is_rate=True) == shown


def test_short_callback_that_runs_is_not_the_longest() -> None:
    one = loop(busy_s=0.09, busy_with="now")
    assert screen._longest(one, is_rate=True) == screen._longest(one, is_rate=False) == "-"
    assert text([process(1, 2.0, loop(loop_lag_s=0.002, busy_s=0.09))], None).splitlines()[-1].split()[5:7] == [
        "90.0",
        "ms",
    ]


def test_rates_of_two_processes_are_their_own() -> None:
    before = [process(1, 10.0, loop(ticks=100)), process(2, 20.0, loop(ticks=1_000))]
    now = [process(1, 12.0, loop(ticks=300)), process(2, 21.0, loop(ticks=1_007))]
    heads, *rows = text(now, before).splitlines()[1:]
    assert "ticks/s" in heads.split()
    assert [row.split()[3] for row in rows] == ["100", "7"]


def test_totals_have_no_rates_in_their_heads() -> None:
    heads = text([process(1, 10.0, loop())], None).splitlines()[1]
    assert "ticks" in heads.split()
    assert "/s" not in heads


def test_process_whose_loops_are_closed() -> None:
    shown = text([process(1, 10.0, loop(state="closed"))], None)
    assert shown == "program.py   oneloop 1, Python 3\nno event loop is open"


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_names_are_no_markup_of_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    rich = pytest.importorskip("rich.console")

    class Live:
        """Draws a table once, in colours."""

        def __init__(self) -> None:
            self.console = rich.Console(file=io.StringIO(), width=200, force_terminal=True, color_system="truecolor")

        def update(self, table: object, *, refresh: bool) -> None:
            assert refresh
            self.console.print(table)

    shown = Screen()
    live = shown._live = Live()
    one = loop(longest_callback_s=1, longest_callback_name="[blink]name[/blink]")
    shown.show([process(1, 1.0, one, argv=("[conceal]x[/conceal]",))], None)
    drawn = live.console.file.getvalue()
    assert "[blink]name[/blink]" in drawn
    assert "[conceal]x[/conceal]" in drawn


def test_terminal_without_rich_gets_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    with Screen() as shown:
        shown.show([process(1, 1.0, loop())], None)
    assert terminal.getvalue().startswith("program.py   oneloop 1")
    assert "pip install rich" in capsys.readouterr().err


def test_pipe_gets_text() -> None:
    with Screen() as shown:
        assert shown._live is None


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        (None, "-"),
        ({"open": 0, "idle": 0, "waiting": 0}, "0/0"),
        ({"open": 12, "idle": 2, "waiting": 0}, "10/12"),
        ({"open": 100, "idle": 0, "waiting": 3210}, "100/100 +3,210"),
    ],
)
def test_clients(counts: dict[str, int] | None, shown: str) -> None:
    table = text([process(1, 0.0, loop(client=counts))], None).splitlines()
    assert table[1].split()[-2] == "client"
    assert f"  {shown}  -" in table[2]
