"""`Turn`: who may use a file's cursor now; first come, first served.

`asyncio.Lock` would do the same for a coroutine per call. Here taking a turn that nobody has is a look at `is_taken`:

    if turn.is_taken:
        await turn.wait()
    else:
        turn.is_taken = True
    try: …
    finally:
        turn.leave()

It knows nothing of files.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Turn"]


class Turn:
    """One holder at a time; whoever waits is served in order; a cancelled waiter passes its turn on."""

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for the turn; on return it is the caller's, who must `leave` it."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # Given and cancelled in the same tick.
                self.leave()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def leave(self) -> None:
        """Give the turn to who has waited longest, if anybody has."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.is_taken = False
