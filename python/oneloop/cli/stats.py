"""The report of `oneloop run --stats`: the statistics of every loop, as a table on stderr."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from dataclasses import fields
from typing import Any, TextIO

from oneloop import registry
from oneloop.loop import Loop
from oneloop.statistics import Statistics

__all__ = ["at_exit", "table"]

# The first loops have a column each; all others share one.
COLUMNS_MAX = 6
# In the shared column these fields show the maximum; all others show the sum.
_MAXIMA = ("longest_callback_s", "longest_tick_s", "loop_lag_s")


class _Log:
    """All loops of the process. Of a closed loop only the statistics are kept."""

    def __init__(self) -> None:
        self._made = 0
        self._open: weakref.WeakKeyDictionary[Loop, int] = weakref.WeakKeyDictionary()
        self._closed: dict[int, Statistics] = {}

    def made(self, loop: Loop) -> None:
        self._made += 1
        self._open[loop] = self._made

    def closing(self, loop: Loop) -> None:
        number = self._open.pop(loop, None)
        if number is not None:
            self._closed[number] = loop.statistics()

    def forget(self) -> None:
        """Forget the loops of the parent, in a forked child."""
        self._made = 0
        self._open.clear()
        self._closed.clear()

    def statistics(self) -> list[Statistics]:
        """The statistics in the order in which the loops were made."""
        still_open = {number: loop.statistics() for loop, number in self._open.items()}
        return [numbered for _, numbered in sorted({**self._closed, **still_open}.items())]


def at_exit(*, is_child: bool = False) -> None:
    """Print the table when the process ends (not when it is killed, and not after `os._exit`).

    Args:
        is_child: whether a program under `oneloop run` started this process. Then the table has the process id, and
            nothing is printed if there is no loop.
    """
    log = _Log()

    def follow(kind: Any) -> None:
        make, close = kind.__init__, kind.close

        def logged_init(self: Any, *args: Any, **kwargs: Any) -> None:
            make(self, *args, **kwargs)
            log.made(self)

        def logged_close(self: Any) -> None:
            if not (self.is_running() or self.is_closed()):
                log.closing(self)
            close(self)

        kind.__init__ = logged_init
        kind.close = logged_close

    follow(Loop)
    # asyncio's own loop in green threads, if the program has them.
    registry.follow_kinds(follow)
    report = _Report(log, is_child=is_child)
    atexit.register(report.print)
    report.follow_multiprocessing()
    os.register_at_fork(after_in_child=report.move_to_child)


class _Report:
    """The table of one process, printed once."""

    def __init__(self, log: _Log, *, is_child: bool) -> None:
        self._log = log
        self._is_child = is_child
        self._is_printed = False

    def print(self) -> None:
        if self._is_printed:
            return
        self._is_printed = True
        statistics = self._log.statistics()
        if statistics or not self._is_child:
            write(statistics, sys.stderr, process=os.getpid() if self._is_child else None)

    def move_to_child(self) -> None:
        """Make this the table of a child that was made by fork."""
        self._log.forget()
        self._is_child, self._is_printed = True, False
        self.follow_multiprocessing()

    def follow_multiprocessing(self) -> None:
        """Print the table at the end of a child of multiprocessing, which may end with os._exit, after its finalizers.

        A child begins with those of its parent, or of the time in which a fork server's child imported the program. It
        clears them, and then calls what is registered here.
        """
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            _print_at_the_end_of_a_worker(self)
            util.register_after_fork(self, _print_at_the_end_of_a_worker)


def _print_at_the_end_of_a_worker(report: _Report) -> None:
    from multiprocessing import process, util

    def print_in_worker() -> None:
        if process.parent_process() is not None:
            report.print()

    util.Finalize(None, print_in_worker, exitpriority=-1000)


def write(statistics: list[Statistics], file: TextIO, *, process: int | None = None) -> None:
    """Write the table, or a message if there was no oneloop loop.

    Args:
        statistics: the statistics of each loop.
        file: where to write.
        process: the process id for the heading; None if the heading has none.
    """
    text = table(statistics) if statistics else "this process created no oneloop event loop"
    of_process = "" if process is None else f" of process {process}"
    print(f"oneloop statistics{of_process}\n{text}", file=file)


def table(statistics: list[Statistics]) -> str:
    """Return a table with one line per field and one column per loop."""
    shown = statistics[:COLUMNS_MAX]
    heads = [f"loop {number}" for number in range(1, len(shown) + 1)]
    rest = statistics[COLUMNS_MAX:]
    if rest:
        heads.append(f"{len(rest)} more")
    rows = [["", *heads]]
    for field in fields(Statistics):
        cells = [_cell(getattr(one, field.name)) for one in shown]
        if rest:
            values = [getattr(one, field.name) for one in rest]
            cells.append(_merged(field.name, values))
        rows.append([field.name.removesuffix("_s").replace("_", " "), *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                f"{row[0]:<{widths[0]}}",
                *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _merged(name: str, values: list[Any]) -> str:
    if isinstance(values[0], str):
        return ""
    return _cell(max(values) if name in _MAXIMA else sum(values))


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    # A duration in seconds.
    return f"{value * 1e3:,.3f} ms"
