"""Tells the subscribers of `oneloop.green.events` what is patched."""

from __future__ import annotations

from oneloop.green import events
from oneloop.green.events import DoNotPatch

__all__ = ["DoNotPatch", "notify"]


def notify(name: str, *arguments: object) -> None:
    """Make an event of a class of `oneloop.green.events`, and give it to the subscribers.

    Raises:
        DoNotPatch: a subscriber wants it left alone.
    """
    event = getattr(events, name)(*arguments)
    for subscriber in list(events.subscribers):
        subscriber(event)
