"""`EventLoopPolicy`: asyncio's default policy with oneloop loops (Python 3.11 to 3.15)."""

from __future__ import annotations

from asyncio import unix_events
from typing import TYPE_CHECKING

from oneloop.factories import default_loop

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from asyncio import DefaultEventLoopPolicy as _Base
else:
    # Using the public name raises a DeprecationWarning from Python 3.14 on.
    _Base = unix_events._UnixDefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """A policy whose `new_event_loop()` creates a `oneloop.Loop`.

    In a green thread it creates a `oneloop.green.facade.FacadeLoop`.
    Like asyncio's policies, deprecated from Python 3.14 on; use `oneloop.run` there. Subclassing is supported.
    """

    def _loop_factory(self) -> AbstractEventLoop:
        return default_loop()
