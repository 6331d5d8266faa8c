"""How a coroutine waits for the end of a green thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit

from oneloop.green.parking_selector import is_on_hub

if TYPE_CHECKING:
    from oneloop.green.greenlet import Greenlet

__all__ = ["ended"]


async def ended(greenlet: Greenlet) -> Any:
    """Wait for the end of a green thread; see `Greenlet.__await__`."""
    if not greenlet.ready():
        await _wait(greenlet)
    raised = greenlet.exception
    if isinstance(raised, StopIteration):
        raise RuntimeError("a green thread raised StopIteration") from raised
    if raised is not None:
        raise raised
    if isinstance(greenlet.value, GreenletExit):
        raise asyncio.CancelledError(*greenlet.value.args)
    return greenlet.value


async def _wait(greenlet: Greenlet) -> None:
    """Wait until the green thread has ended. Raise each cancellation in it."""
    loop = asyncio.get_running_loop()
    if not is_on_hub(loop, greenlet.hub):
        raise RuntimeError(
            f"{greenlet!r} cannot be awaited in {loop!r}, because it belongs to another event loop: spawn it while the "
            "loop that awaits it is running; that must be a oneloop loop (oneloop.run())"
        )
    is_over = loop.create_future()

    def settle() -> None:
        if not is_over.done():
            is_over.set_result(None)

    def note_end(_: Greenlet) -> None:
        # Called by the hub. The awaiting loop may be run by another green thread.
        if loop is greenlet.hub.asyncio_loop:
            settle()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    greenlet.rawlink(note_end)
    while not is_over.done():
        try:
            await asyncio.shield(is_over)
        except asyncio.CancelledError as cancelled:
            if is_over.done():
                # The green thread ended and the task was cancelled at the same time: raise the cancellation.
                raise
            greenlet.kill(cancelled, block=False)
