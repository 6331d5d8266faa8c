"""The output of `oneloop top`: a table with one row per loop, drawn by rich on a terminal, otherwise as plain text."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["Screen", "command", "printable", "silence", "text"]

_HEADS = (
    "process",
    "loop",
    "state",
    "ticks/s",
    "calls/s",
    "lag",
    "in/s",
    "out/s",
    "conns",
    "green",
    "files",
    "client",
    "longest",
)
_LESS_IMPORTANT = ("client", "files", "green", "calls", "loop", "in", "out", "conns")
"""Columns that a narrow terminal does not show; the first ones are left out first."""
_TOTAL_HEADS = tuple(head.removesuffix("/s") for head in _HEADS)
COMMAND_MAX = 60


def printable(text: str) -> str:
    """Text of another process, without what a terminal would obey or Python could not print."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def command(answer: dict[str, Any]) -> str:
    """Return the command line of a process, shortened: without the folder of the program, then without its end."""
    line = printable(shlex.join(answer["argv"])) or "?"
    if len(line) > COMMAND_MAX:
        path = PurePath(answer["argv"][0])
        # A package that was run with -m.
        name = path.parent.name if path.name == "__main__.py" else path.name
        line = printable(shlex.join([name or answer["argv"][0], *answer["argv"][1:]]))
    return line if len(line) <= COMMAND_MAX else line[: COMMAND_MAX - 1] + "…"


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.1f} s"
    return f"{value * 1e3:.1f} ms" if value >= 0.001 else f"{value * 1e6:.0f} µs"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _longest(loop: dict[str, Any], *, is_rate: bool) -> str:
    """The current callback if it has run for long; otherwise the longest recent one or, for totals, the longest one."""
    busy_s, recent_s = loop["busy_s"], loop["recent_longest_callback_s"]
    if busy_s is not None and busy_s > max(recent_s, 0.1):
        return f"{_seconds(busy_s)} so far, in {loop['busy_with'] or 'a callback'}"
    length_s, name = recent_s, loop["recent_longest_callback_name"]
    if not is_rate:
        length_s, name = loop["longest_callback_s"], loop["longest_callback_name"]
    return f"{_seconds(length_s)} {name}" if name else "-"


def _client(counts: dict[str, int] | None) -> str:
    """Connections of HTTP clients that carry a request, of those that are open, and requests that wait for one."""
    if counts is None:
        return "-"
    waiting = f" +{counts['waiting']:,}" if counts["waiting"] else ""
    return f"{counts['open'] - counts['idle']:,}/{counts['open']:,}{waiting}"


def silence(answer: dict[str, Any]) -> str:
    """Return what is said of a process that does not answer."""
    return f"no answer for {_seconds(answer['silent_s'])}: stopped, or an extension module holds the GIL"


def _rows(answers: list[dict[str, Any]], before: list[dict[str, Any]] | None) -> list[list[str]]:
    """The rows of the table: rates since `before`, or totals without it."""
    earlier = {
        (answer["pid"], loop["number"]): (answer["time_s"], loop) for answer in before or [] for loop in answer["loops"]
    }
    rows = []
    for answer in answers:
        if "silent_s" in answer:
            rows.append([str(answer["pid"]), *["-"] * (len(_HEADS) - 2), silence(answer)])
            continue
        for loop in answer["loops"]:
            if loop["state"] == "closed":
                continue
            then_s, then = earlier.get((answer["pid"], loop["number"]), (None, None))
            elapsed_s = answer["time_s"] - then_s if then_s is not None else None

            def change(name: str, loop: Any = loop, then: Any = then, elapsed_s: float | None = elapsed_s) -> float:
                value: float = loop[name]
                return (value - then[name]) / elapsed_s if elapsed_s else value

            rows.append(
                [
                    str(answer["pid"]),
                    str(loop["number"]),
                    printable(loop["state"]),
                    f"{change('ticks'):,.0f}",
                    f"{change('callbacks'):,.0f}",
                    _seconds(max(loop["loop_lag_s"], loop["busy_s"] or 0.0)),
                    _bytes(change("bytes_in")),
                    _bytes(change("bytes_out")),
                    f"{loop['open_transports']:,}",
                    f"{loop['green_threads']:,}",
                    f"{loop['file_operations']:,}",
                    _client(loop.get("client")),
                    printable(_longest(loop, is_rate=elapsed_s is not None)),
                ]
            )
    return rows


def _title(answers: list[dict[str, Any]]) -> str:
    first = next((answer for answer in answers if "silent_s" not in answer), None)
    if first is None:
        return command(answers[0])
    versions = printable(f"oneloop {first['oneloop']}, Python {first['python']}")
    return f"{command(first)}   {versions}"


def text(answers: list[dict[str, Any]], before: list[dict[str, Any]] | None) -> str:
    """Return the table as plain text.

    Args:
        answers: the snapshots of the processes.
        before: the snapshots before them, for rates per second; None for totals.
    """
    rows = _rows(answers, before)
    if not rows:
        return f"{_title(answers)}\nno event loop is open"
    table = [list(_HEADS if before else _TOTAL_HEADS), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEADS))]
    lines = []
    for row in table:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]))
    return "\n".join([_title(answers), *lines])


def _shown(heads: Sequence[str], rows: list[list[str]], width: int) -> list[int]:
    """The columns that fit into a terminal of this width. `longest` gets at least 20 characters."""
    shown = list(range(len(heads)))

    def needed() -> int:
        widths = [max(len(row[column]) for row in [heads, *rows]) for column in shown[:-1]]
        # rich draws three characters between two columns, and one at each edge.
        return sum(widths) + 20 + 3 * len(shown) + 1

    for name in _LESS_IMPORTANT:
        column = next(place for place, head in enumerate(heads) if head.removesuffix("/s") == name)
        if needed() <= width:
            break
        shown.remove(column)
    return shown


class Screen:
    """Shows one table after the other: redrawn in place on a terminal if rich is installed, otherwise as text."""

    def __init__(self) -> None:
        self._live: Any = None

    def __enter__(self) -> Self:
        # A terminal without control sequences shows nothing of what rich redraws.
        if not sys.stdout.isatty() or os.environ.get("TERM", "").lower() in ("", "dumb", "unknown"):
            return self
        try:
            from rich.live import Live
        except ImportError:
            print("oneloop top: to redraw the table in place, install rich: pip install rich", file=sys.stderr)
            return self
        self._live = Live(auto_refresh=False, screen=False)
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, value, traceback)

    def show(self, answers: list[dict[str, Any]], before: list[dict[str, Any]] | None) -> None:
        """Show the table for these snapshots; `before` are the previous ones."""
        if self._live is None:
            print(text(answers, before), flush=True)
            return
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(_title(answers)), title_justify="left", expand=True)
        heads, rows = _HEADS if before else _TOTAL_HEADS, _rows(answers, before)
        shown = _shown(heads, rows, self._live.console.width)
        for head in (heads[column] for column in shown):
            is_text = head in ("state", "longest")
            table.add_column(head, justify="left" if is_text else "right", no_wrap=head != "longest")
        for row in rows:
            table.add_row(*(escape(row[column]) for column in shown))
        self._live.update(table, refresh=True)
