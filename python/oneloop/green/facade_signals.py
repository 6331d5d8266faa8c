"""Who gets a signal that facade loops of one hub handle: the last one that has added a handler.

The handler is the hub's loop's, and there is one for each signal. What a facade loop has replaced, that of another
facade loop or the program's own on the hub's loop, is kept here, and put back when the facade loop has none any more.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["give", "take"]

_stacks: weakref.WeakKeyDictionary[Any, dict[int, list[asyncio.Handle]]] = weakref.WeakKeyDictionary()
"""A hub's loop -> a signal -> its handlers, the last one first to be called; the others are covered by it."""


def take(hub_loop: Any, sig: int, callback: Callable[[int], object]) -> tuple[Any, asyncio.Handle]:
    """Make a hub's loop call `callback(sig)`, and return what `give` needs.

    Raises:
        ValueError: the signal does not exist.
        RuntimeError: the signal cannot be caught, or the caller is not the main thread.
    """
    found: asyncio.Handle | None = hub_loop._signal_handle(sig)
    hub_loop.add_signal_handler(sig, callback, sig)
    own: asyncio.Handle = hub_loop._signal_handle(sig)
    stack = _stacks.setdefault(hub_loop, {}).setdefault(sig, [])
    if found is None:
        # The program has removed what was left.
        stack.clear()
    elif found not in stack:
        stack.append(found)
    stack.append(own)
    return hub_loop, own


def give(sig: int, hub_loop: Any, own: asyncio.Handle) -> None:
    """Undo `take`: the handler that this one has covered is called again. If another one covers it, that one stays."""
    if hub_loop.is_closed():
        return
    stack = _stacks.get(hub_loop, {}).get(sig, [])
    if own in stack:
        stack.remove(own)
    if hub_loop._signal_handle(sig) is not own:
        return
    if stack:
        hub_loop._swap_signal_handle(sig, stack[-1])
    else:
        hub_loop.remove_signal_handler(sig)
