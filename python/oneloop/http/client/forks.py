"""What a forked child forgets: connections that its parent uses.

Nothing of it is closed, because even that could be seen by the other side: TLS says goodbye on a connection that both
processes have. The child makes its own connections when it sends its first request.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet

__all__ = ["forget_in_child", "keep_of_parent"]

_owners: WeakSet[Any] = WeakSet()
# Kept for ever, so that nothing of it is closed when it is collected.
_of_parents: list[Any] = []


def forget_in_child(owner: Any) -> None:
    """Let an object's method `_forget_parents` be called in each forked child. It returns what must be kept alive."""
    _owners.add(owner)


def keep_of_parent(kept: object) -> None:
    """In a forked child: keep what is its parent's."""
    _of_parents.append(kept)


def _forget() -> None:
    _of_parents.extend([owner._forget_parents() for owner in list(_owners)])


os.register_at_fork(after_in_child=_forget)
