"""`linux_aio.block.vector`: blocks with several buffers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from oneloop import aio
from oneloop.compat.linux_aio.block.rw import RWBlock, writable
from oneloop.compat.linux_aio_bind import IOCBCMD, IOCBPriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import HasFileno, ReadableBuffer

    from oneloop.compat.linux_aio.block.base import AIOBlock

__all__ = ["ReadVBlock", "VectorBlock", "WriteVBlock"]


class VectorBlock(RWBlock):
    """A block with several buffers, used in order."""

    __slots__ = ("_buffer",)

    _buffer: tuple[ReadableBuffer, ...]

    def __init__(
        self,
        file: int | HasFileno,
        buffer: Iterable[ReadableBuffer],
        offset: int,
        rw_flags: int,
        priority_class: int,
        priority_value: int,
        res_fd: int,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)
        self.offset, self.rw_flag = offset, rw_flags
        self.buffer = buffer

    @property
    def buffer(self) -> tuple[ReadableBuffer, ...]:
        """The buffers, always as a tuple."""
        return self._buffer

    @buffer.setter
    def buffer(self, buffer: Iterable[ReadableBuffer]) -> None:
        self._buffer = self._accept(tuple(buffer))

    @abstractmethod
    def _accept(self, buffers: tuple[ReadableBuffer, ...]) -> tuple[ReadableBuffer, ...]: ...

    def _convert(self, other: AIOBlock) -> None:
        super()._convert(other)
        self._buffer = ()
        if isinstance(other, VectorBlock):
            self._buffer, self.offset = other._buffer, other.offset


class ReadVBlock(VectorBlock):
    """Reads into several writable buffers."""

    __slots__ = ()

    _CMD = IOCBCMD.PREADV

    def __init__(
        self,
        file: int | HasFileno,
        buffer_list: Iterable[ReadableBuffer],
        offset: int = 0,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe a read.

        Raises:
            TypeError: a buffer is not writable.
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, buffer_list, offset, rw_flags, priority_class, priority_value, res_fd)

    def _accept(self, buffers: tuple[ReadableBuffer, ...]) -> tuple[ReadableBuffer, ...]:
        for buffer in buffers:
            writable(buffer)
        return buffers

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.ReadV(
            self._file,
            [writable(buffer) for buffer in self._buffer],
            self.offset,
            rw_flags=self.rw_flag,
            priority_class=priority_class,
            priority_value=priority_value,
            res_fd=res_fd,
        )


class WriteVBlock(VectorBlock):
    """Writes several buffers."""

    __slots__ = ()

    _CMD = IOCBCMD.PWRITEV

    def __init__(
        self,
        file: int | HasFileno,
        content_list: Iterable[ReadableBuffer],
        offset: int = 0,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe a write.

        Raises:
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, content_list, offset, rw_flags, priority_class, priority_value, res_fd)

    def _accept(self, buffers: tuple[ReadableBuffer, ...]) -> tuple[ReadableBuffer, ...]:
        return buffers

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.WriteV(
            self._file,
            self._buffer,
            self.offset,
            rw_flags=self.rw_flag,
            priority_class=priority_class,
            priority_value=priority_value,
            res_fd=res_fd,
        )
