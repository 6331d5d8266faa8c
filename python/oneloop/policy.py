"""`EventLoopPolicy`: asyncio's policy with oneloop loops, where policies exist (up to 3.15)."""

from __future__ import annotations

from asyncio import unix_events
from typing import TYPE_CHECKING

from oneloop.factories import default_loop

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from asyncio import DefaultEventLoopPolicy as _Base
else:
    # Its public name gives a DeprecationWarning from Python 3.14 on.
    _Base = unix_events._UnixDefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """A policy whose `new_event_loop()` makes a `oneloop.Loop`, in a green thread `oneloop.green.facade.FacadeLoop`.

    Deprecated with asyncio's policies from Python 3.14 on; use `oneloop.run` there. A program may
    subclass it, as it may subclass asyncio's.
    """

    def _loop_factory(self) -> AbstractEventLoop:
        return default_loop()
