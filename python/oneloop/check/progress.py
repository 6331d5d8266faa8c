"""`Progress`: a progress bar on stderr while URLs are checked. By default it is shown only on a terminal."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.check.counts import Counts

__all__ = ["Progress", "entries_in"]

_STEP_S = 0.1


def entries_in(path: str) -> int | None:
    """Return about how many entries a file has: its lines that are neither empty nor comments.

    None: it is not a file of text, or cannot be read; then nothing is known in advance.
    """
    try:
        if not Path(path).is_file() or path.lower().endswith((".gz", ".xml")):
            return None
        with Path(path).open("rb") as file:
            # gzip's magic number: RFC 1952, 2.3.1.
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            lines = sum(1 for line in file if line.strip() and not line.lstrip().startswith(b"#"))
    except OSError:
        return None
    return None if is_packed else lines


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
        self._began_s = time.monotonic()
        self._bar: Any = None
        if is_shown or (is_shown is None and sys.stderr.isatty()):
            self._bar = _bar()
            if self._bar is None and is_shown:
                print("oneloop check: --progress needs the package rich: pip install rich", file=sys.stderr)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=total, said="", rate=0)

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
        rate = self._counts.total / max(now_s - self._began_s, _STEP_S)
        draw = partial(
            self._bar.update, self._task, completed=self._counts.total, said=said, rate=rate, refresh=True
        )  # fmt: skip
        self._draw(draw)

    def _draw(self, step: Callable[[], object]) -> None:
        """Draw. If stderr cannot be written, the bar is dropped and the run continues."""
        try:
            step()
        except OSError:
            self._bar = None


def _bar() -> Any:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    return progress.Progress(
        progress.BarColumn(bar_width=20), progress.MofNCompleteColumn(),
        progress.TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]:,.0f}/s"),
        progress.TimeElapsedColumn(), progress.TimeRemainingColumn(), progress.TextColumn("{task.fields[said]}"),
        console=Console(stderr=True), transient=True, auto_refresh=False,
    )  # fmt: skip
