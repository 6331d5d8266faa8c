"""Runs the real, unchanged gevent on a oneloop loop: `GEVENT_LOOP=oneloop.green.gevent_loop.loop`.

`gevent.get_hub().loop.asyncio_loop` is the loop below; its `create_task` runs coroutines beside gevent's greenlets.
"""

from __future__ import annotations

import gevent._interfaces
import gevent.exceptions
from zope.interface import classImplements

from oneloop.green import core
from oneloop.green.loop import Callback
from oneloop.green.watchers import Watcher

__all__ = core.__all__


class loop(core.loop):  # noqa: N801 - gevent's name
    """The loop of gevent's hub."""

    ends = (*core.loop.ends, gevent.exceptions.HubDestroyed)


classImplements(loop, gevent._interfaces.ILoop)
classImplements(Watcher, gevent._interfaces.IWatcher)
classImplements(Callback, gevent._interfaces.ICallback)

# gevent.core exports these names: libev's functions and constants.
_shown = {*core.__all__, "_events_to_str"} - {"loop"}
globals().update({name: value for name, value in vars(core).items() if name.isupper() or name in _shown})
