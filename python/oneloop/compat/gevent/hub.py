"""`gevent.hub`: the hub, and other names that programs expect there."""

from __future__ import annotations

from typing import Any

from oneloop.green.exceptions import BlockingSwitchOutError, HubDestroyed, InvalidSwitchError, LoopExit
from oneloop.green.greenlet import kill, spawn_raw
from oneloop.green.hub import (
    GreenletExit,
    Hub,
    get_hub,
    get_hub_if_exists,
    getcurrent,
    idle,
    set_default_hub_class,
    sleep,
)
from oneloop.green.iwait import iwait, wait
from oneloop.green.links import linkproxy
from oneloop.green.waiter import Waiter

__all__ = ["GreenletExit", "Hub", "Waiter", "get_hub", "getcurrent", "kill", "sleep", "spawn_raw"]
__all__ += ["reinit", "signal"]  # noqa: F822 - provided by __getattr__

iwait_on_objects, wait_on_objects = iwait, wait
_get_hub = get_hub_if_exists


def __getattr__(name: str) -> Any:
    # These modules import the whole package, so import them on first use.
    if name == "reinit":
        from oneloop.green import hub

        return hub.reinit
    if name == "signal":
        from oneloop import green

        return green.signal_handler
    raise AttributeError(f"module 'gevent.hub' has no attribute {name!r}")


_ALSO = (
    BlockingSwitchOutError,
    HubDestroyed,
    InvalidSwitchError,
    LoopExit,
    idle,
    iwait_on_objects,
    linkproxy,
    set_default_hub_class,
    wait_on_objects,
)
"""Names that programs import from here, although they are not public names of this module."""
