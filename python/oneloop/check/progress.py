"""`Progress`: what stderr shows while URLs are checked: a line on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.check.counts import Counts

__all__ = ["Progress"]

_STEP_S = 0.1


class Progress:
    """Used within `with`. `update` may be called for each URL: it is cheap, and draws ten times a second.

    Args:
        counts: what is shown.
        total: of how many URLs; None if nobody knows.
        is_shown: None: if stderr is a terminal and rich is installed.
    """

    def __init__(self, counts: Counts, *, total: int | None = None, is_shown: bool | None = None) -> None:
        self._counts = counts
        self._next_s = 0.0
        self._bar: Any = None
        if is_shown or (is_shown is None and sys.stderr.isatty()):
            self._bar = _bar()
            if self._bar is None and is_shown:
                print("oneloop check: the progress bar needs rich: pip install rich", file=sys.stderr)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=total, said="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._draw(self._bar.start)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._next_s = 0.0
            self.update()
        if self._bar is not None:
            self._draw(self._bar.stop)

    def update(self) -> None:
        """Draw, if it is time to."""
        if self._bar is None:
            return
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _STEP_S
        said = "  ".join(f"{name} {count}" for name, count in self._counts.as_dict().items())
        draw = partial(self._bar.update, self._task, completed=self._counts.total, said=said, refresh=True)
        self._draw(draw)

    def _draw(self, step: Callable[[], object]) -> None:
        """As with lines for people, a stderr that cannot be written does not end the run."""
        try:
            step()
        except OSError:
            self._bar = None


def _bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    return Progress(
        BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[said]}"),
        console=Console(stderr=True), transient=True, auto_refresh=False,
    )  # fmt: skip
