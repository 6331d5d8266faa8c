"""When the bar is drawn, and where: the clock and the bar are the test's own."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from oneloop.check import Result, progress
from oneloop.check.counts import Counts
from oneloop.check.progress import Progress, entries_in


class Bar:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def add_task(self, *_: object, **fields: Any) -> int:
        self.said.append(f"total {fields['total']}")
        return 7

    def start(self) -> None:
        self.said.append("start")

    def stop(self) -> None:
        self.said.append("stop")

    def update(self, task: int, *, completed: int, said: str, rate: float, refresh: bool) -> None:
        assert (task, refresh) == (7, True)
        assert rate >= 0
        self.said.append(f"{completed}: {said}")


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_ten_times_a_second_and_at_the_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar()
    monkeypatch.setattr(progress, "_bar", lambda: bar)
    counts = Counts()
    with Progress(counts, total=4, is_shown=True) as shown:
        for step_s in (0.0, 0.05, 0.06, 0.01):
            clock.now_s += step_s
            counts.add(Result(1, "http://a/", status=200))
            shown.update()
    assert bar.said == ["total 4", "start", "1: 200 1", "3: 200 3", "4: 200 4", "stop"]


@pytest.mark.parametrize(("is_terminal", "is_shown"), [(True, None), (False, None), (True, False), (False, True)])
def test_on_a_terminal_or_as_asked(
    is_terminal: bool, is_shown: bool | None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = Bar()
    monkeypatch.setattr(progress, "_bar", lambda: bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with Progress(Counts(), is_shown=is_shown):
        pass
    assert bool(bar.said) == (is_terminal if is_shown is None else is_shown)


def test_with_the_number_of_entries_the_rest_of_the_time_is_drawn() -> None:
    console = pytest.importorskip("rich.console")
    bar = progress._bar()
    bar.add_task("", total=100, completed=50, said="200 50", rate=12.3)
    drawn = console.Console(file=io.StringIO(), width=120, record=True)
    drawn.print(bar.get_renderable())
    assert re.search(r"50/100  50%  12/s 0:00:00 -:--:-- 200 50", drawn.export_text())


@pytest.mark.parametrize(
    ("name", "text", "entries"),
    [
        ("urls.txt", b"# list\nhttp://a/\n\n  \nhttp://b/", 2),
        ("urls.txt", b"", 0),
        ("urls.txt.gz", b"x\n", None),
        ("packed", b"\x1f\x8b\n\n", None),
        ("sitemap.xml", b"x\n", None),
    ],
)
def test_entries_are_counted(tmp_path: Path, name: str, text: bytes, entries: int | None) -> None:
    (tmp_path / name).write_bytes(text)
    assert entries_in(str(tmp_path / name)) == entries
    assert entries_in(str(tmp_path / "nowhere")) is None
    assert entries_in("-") is None


def test_it_is_drawn_on_stderr() -> None:
    pytest.importorskip("rich")
    bar = progress._bar()
    assert bar.live.console.stderr


def test_without_rich_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with Progress(Counts(), is_shown=True) as shown:
        shown.update()
