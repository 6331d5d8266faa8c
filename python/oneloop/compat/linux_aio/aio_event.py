"""`linux_aio.aio_event`: the result of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.compat.linux_aio.block import AIOBlock, NonVectorBlock, VectorBlock

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["AIOEvent"]


def _stripped(buffer: ReadableBuffer) -> bytes | bytearray:
    kept = buffer if isinstance(buffer, (bytes, bytearray)) else bytes(buffer)
    return kept.rstrip(b"\0")


class AIOEvent:
    """The result of a block. Created by `AIOContext.get_events()`."""

    __slots__ = ("_aio_block", "_response", "_response2")

    def __init__(self, aio_block: AIOBlock, response: int, response2: int = 0) -> None:
        self._aio_block = aio_block
        self._response = response
        self._response2 = response2

    @property
    def aio_block(self) -> AIOBlock:
        """The block."""
        return self._aio_block

    @property
    def buffer(self) -> ReadableBuffer | tuple[ReadableBuffer, ...] | None:
        """The block's buffer; a tuple if it has several, None if it has none."""
        if isinstance(self._aio_block, (NonVectorBlock, VectorBlock)):
            return self._aio_block.buffer
        return None

    def stripped_buffer(self) -> bytes | bytearray | tuple[bytes | bytearray, ...] | None:
        """Return the buffer without trailing NUL bytes; if there are several, a tuple."""
        if isinstance(self._aio_block, NonVectorBlock):
            return _stripped(self._aio_block.buffer)
        if isinstance(self._aio_block, VectorBlock):
            return tuple(_stripped(buffer) for buffer in self._aio_block.buffer)
        return None

    @property
    def response(self) -> int:
        """The return value of the system call, or a negative errno."""
        return self._response

    @property
    def response2(self) -> int:
        """The kernel's second result; 0 for all existing operations."""
        return self._response2
