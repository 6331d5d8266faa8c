"""`EventLoopPolicy`: asyncio's policy with oneloop loops, where policies exist (up to 3.15)."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any

from oneloop.run import new_event_loop

if TYPE_CHECKING:
    from oneloop.loop import Loop

with warnings.catch_warnings():
    # Python 3.14 and 3.15 deprecate the base class on access.
    warnings.simplefilter("ignore", DeprecationWarning)
    _Base: Any = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_Base):  # type: ignore[misc]
    """A policy whose `new_event_loop()` makes a `oneloop.Loop`.

    Deprecated with asyncio's policies from Python 3.14 on; use `oneloop.run` there.
    """

    def _loop_factory(self) -> Loop:
        return new_event_loop()
