"""`PlainLoop`: the loop of plain code, which runs again and again for a moment, and maybe within another loop."""

from __future__ import annotations

from typing import Any

from oneloop import signals
from oneloop.loop import Loop

__all__ = ["PlainLoop"]


class PlainLoop(Loop):
    """A loop whose runs are without what `run_forever` does for signals: see `oneloop.signals`."""

    is_to_be_prepared = False
    """It has left the process's wakeup descriptor to another one for the rest of a run."""
    _found_fd = -1

    def _keep_wakeup_fd(self: Any, fd: int) -> None:
        self.is_to_be_prepared = True
        was_told = self._may_be_told
        super()._keep_wakeup_fd(fd)
        if self._may_be_told and not was_told:
            # It is the innermost one from now on.
            self._run_number = next(signals._runs)
            self._found_fd = fd

    def give_back(self: Any) -> None:
        """Behind a run in the main thread: signals are for the loop around again."""
        found, self._found_fd = self._found_fd, -1
        self._end_run()
        if found in signals._wakeup_fds and signals._told_of_signals(None) is None:
            # That of a loop without handlers, which sleeps: this one ran in a handler of a signal.
            signals._swap_wakeup_fd(found)
