"""`SimpleQueue` for patched programs, with the standard library's signatures."""

from __future__ import annotations

from typing import Any

from oneloop.green.queue import SimpleQueue as _SimpleQueue
from oneloop.green.seconds import checked_seconds
from oneloop.green.steps import is_in_green_thread, wait_here
from oneloop.green.threadlock import let_others_go
from oneloop.green.timeout import Timeout

__implements__ = ["SimpleQueue"]
__all__ = ["SimpleQueue"]


# The number of failed polls of a queue after which other green threads run: a polling loop would otherwise never end. A
# single poll, as an executor's thread makes before it reports that it is idle, does not switch.
_PATIENCE = 100


class SimpleQueue(_SimpleQueue[Any]):
    """Like `queue.SimpleQueue`."""

    def __init__(self) -> None:
        super().__init__()
        self._asked_in_vain = 0

    def put(self, item: Any, block: bool = True, timeout: float | Timeout | None = None) -> None:
        """Put an item. Never waits."""
        super().put(item, False)

    def put_nowait(self, item: Any) -> None:
        """Put an item. Never waits."""
        super().put(item, False)

    def get(self, block: bool = True, timeout: float | Timeout | None = None) -> Any:
        """Return an item; wait until there is one.

        Args:
            block: whether to wait.
            timeout: the maximum time to wait, in seconds; None means no limit.

        Raises:
            queue.Empty: there is no item, and `block` is false or the timeout expired.
            TypeError: the timeout is no number.
            ValueError: the timeout is negative or NaN.
            OverflowError: the timeout is more than 292 years.
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        if block and timeout is not None:
            timeout = timeout if isinstance(timeout, Timeout) else checked_seconds(timeout)
            if float(timeout) < 0:
                raise ValueError("'timeout' must be a non-negative number")
        if block and not is_in_green_thread():
            if self.empty():
                return wait_here(super().get, block, timeout)
            block = False
        if not block and self.empty():
            self._asked_in_vain += 1
            if self._asked_in_vain >= _PATIENCE:
                self._asked_in_vain = 0
                let_others_go()
        return super().get(block, timeout)

    def get_nowait(self) -> Any:
        """Return an item without waiting, as `get(block=False)` does."""
        return self.get(False)
