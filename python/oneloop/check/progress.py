"""`Progress`: a progress bar on stderr while URLs are checked. By default it is shown only on a terminal."""

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
    """A progress bar. Use it in `with`. `update` is cheap enough to be called for each URL.

    Args:
        counts: the counts to show.
        total: the number of all URLs; None if it is not known.
        is_shown: whether the bar is shown. None: if stderr is a terminal. Without rich there is no bar.
    """

    def __init__(self, counts: Counts, *, total: int | None = None, is_shown: bool | None = None) -> None:
        self._counts = counts
        self._next_s = 0.0
        self._bar: Any = None
        if is_shown or (is_shown is None and sys.stderr.isatty()):
            self._bar = _bar()
            if self._bar is None and is_shown:
                print("oneloop check: --progress needs the package rich: pip install rich", file=sys.stderr)
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
        """Draw the bar, at most ten times a second."""
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
        """Draw. If stderr cannot be written, the bar is dropped and the run continues."""
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
