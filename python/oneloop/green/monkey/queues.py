"""`SimpleQueue` for patched programs, with the standard library's signatures."""

from __future__ import annotations

from typing import Any

from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.queue import SimpleQueue as _SimpleQueue
from oneloop.green.threadlock import let_others_go

__implements__ = ["SimpleQueue"]
__all__ = ["SimpleQueue"]


# So often a queue was asked in vain before others have their turn: who polls would wait for ever. Who asks once, as a
# thread of an executor does before it tells that it is idle, goes on.
_PATIENCE = 100


class SimpleQueue(_SimpleQueue[Any]):
    """See `queue.SimpleQueue`."""

    def __init__(self) -> None:
        super().__init__()
        self._asked_in_vain = 0

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item in; never waits."""
        super().put(item, False)

    def put_nowait(self, item: Any) -> None:
        """The same."""
        super().put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """An item, waited for for at most so many seconds.

        Raises:
            queue.Empty: there is none, and `block` is false or the time is up.
            ValueError: the timeout is negative.
            BlockingSwitchOutError: it would wait, in a coroutine.
        """
        if block and timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        if block and not is_in_green_thread():
            if self.empty():
                raise get_hub()._parking_refused()
            block = False
        if not block and self.empty():
            self._asked_in_vain += 1
            if self._asked_in_vain >= _PATIENCE:
                self._asked_in_vain = 0
                let_others_go()
        return super().get(block, timeout)

    def get_nowait(self) -> Any:
        """An item, at once; as `get(block=False)`."""
        return self.get(False)
