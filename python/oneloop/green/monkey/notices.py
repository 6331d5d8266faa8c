"""Sends events about patching to the subscribers of `oneloop.green.events`."""

from __future__ import annotations

from oneloop.green import events
from oneloop.green.events import DoNotPatch

__all__ = ["DoNotPatch", "notify"]


def notify(name: str, *arguments: object) -> None:
    """Create an event of a class of `oneloop.green.events`, and send it to the subscribers.

    Raises:
        DoNotPatch: a subscriber rejects the patch.
    """
    event = getattr(events, name)(*arguments)
    for subscriber in list(events.subscribers):
        subscriber(event)
