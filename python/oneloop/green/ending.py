"""How the green threads of a closed loop end: each gets GreenletExit, and some time for what it does then.

Nothing of the closed loop can wake them any more. What they wait for while they end (a lock that another one releases,
a connection that says goodbye) runs on a hub that lives only that long. A daemon thread does not keep a program from
its end, and neither does a green thread that catches GreenletExit and goes on waiting: it is left where it is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from greenlet import GreenletExit, getcurrent

from oneloop import _native
from oneloop.green.steps import may_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

    from oneloop.green.hub import Hub

__all__ = ["END_GRACE_S", "end_all"]

END_GRACE_S = 0.5
"""How long green threads may wait, all together, after GreenletExit was raised in them."""
_LINK_TICKS = 3
"""One for the links, one for those that start a greenlet, and one for what runs behind that."""
_FIRST_CHECK_S, _LONGEST_CHECK_S = 0.0005, 0.02

# Those that were left. A greenlet that is freed gets GreenletExit once more, and would wait again.
_left: list[RawGreenlet] = []


def end_all(hub: Hub, greenlets: list[RawGreenlet], make_hub: Callable[[], Hub]) -> None:
    """Raise GreenletExit in the waiting green threads of a closed loop, and wait for their end for a bounded time.

    Args:
        hub: the hub of the closed loop.
        greenlets: the green threads that wait, all of the calling thread.
        make_hub: makes a hub of the calling thread for the time that it takes.
    """
    if hub.leaves_its_threads:
        _left.extend(greenlets)
    elif may_block():
        _native.call_hidden(_end_elsewhere, greenlets, make_hub)
    else:
        _end_here(hub, greenlets)


def _end_elsewhere(greenlets: list[RawGreenlet], make_hub: Callable[[], Hub]) -> None:
    active: Hub | None = _native.active_hub()  # type: ignore[assignment]
    if active is not None:
        _end_on(active, greenlets)
        return
    last = make_hub()
    last.leaves_its_threads = True
    try:
        _end_on(last, greenlets)
    finally:
        last.destroy()


def _end_on(hub: Hub, greenlets: list[RawGreenlet]) -> None:
    """Let them end on a hub whose green threads may wait."""
    runner = hub._make_greenlet()
    for greenlet in greenlets:
        # Control goes to its parent when it ends.
        greenlet.parent = runner
        hub.throw_soon(greenlet, GreenletExit())
    end_s = time.monotonic() + END_GRACE_S
    pause_s = 0.0
    try:
        while not all(greenlet.dead for greenlet in greenlets) and time.monotonic() < end_s:
            _native.sleep(pause_s)
            pause_s = min(max(_FIRST_CHECK_S, 2 * pause_s), _LONGEST_CHECK_S)
        for greenlet in greenlets:
            life = getattr(greenlet, "_life", None)
            if greenlet.dead and isinstance(life, _native.Life):
                life.notify_on(hub, greenlet)
        for _ in range(_LINK_TICKS):
            _native.sleep(0)
    finally:
        _left.extend(greenlet for greenlet in greenlets if not greenlet.dead)


def _end_here(hub: Hub, greenlets: list[RawGreenlet]) -> None:
    """Let them end in a callback or coroutine of another loop that may not block."""
    current = getcurrent()
    for greenlet in greenlets:
        greenlet.parent = current
        try:
            greenlet.throw()
        except Exception as error:  # noqa: BLE001 - it is reported
            hub.handle_error(greenlet, type(error), error, error.__traceback__)
