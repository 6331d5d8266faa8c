"""Virtual time for stock asyncio, to hold oneloop's (`oneloop.testing`) against: the clock jumps when nothing is ready.

With it, timers that are seconds apart take no time, and their order does not depend on the machine.
"""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.differential.reference import ReferenceLoop

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class JumpingSelector(selectors.BaseSelector):
    """Polls without waiting; where it would wait until a deadline and nothing is ready, the clock moves there."""

    def __init__(self) -> None:
        self.inner = selectors.DefaultSelector()
        self.now = 0.0

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.inner.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self.inner.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.inner.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return self.inner.select(None)
        ready = self.inner.select(0)
        if not ready and timeout > 0:
            self.now += timeout
        return ready

    def close(self) -> None:
        self.inner.close()

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self.inner.get_map()


class VirtualLoop(ReferenceLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now
