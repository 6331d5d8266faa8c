"""`linux_aio.block.rw`: the common part of blocks that read or write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.compat.linux_aio.block.base import AIOBlock

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["RWBlock"]


class RWBlock(AIOBlock):
    """A block that reads or writes."""

    __slots__ = ("offset", "rw_flag")

    offset: int
    """The offset in the file, in bytes."""
    rw_flag: int
    """Flags for the operation: `IOCBRWFlag`."""

    def _convert(self, other: AIOBlock) -> None:
        super()._convert(other)
        self.offset, self.rw_flag = 0, 0
        if isinstance(other, RWBlock):
            self.rw_flag = other.rw_flag


def writable(buffer: ReadableBuffer) -> WriteableBuffer:
    """Return a buffer to read into. Raises TypeError if it is not writable."""
    view = memoryview(buffer)
    if not view.readonly:
        return buffer
    if view.nbytes == 0:
        # Nothing can be written to it, so any buffer works.
        return bytearray()
    raise TypeError(f"a read needs a writable buffer, such as a bytearray, not {type(buffer).__name__}")
