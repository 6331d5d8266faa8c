"""`linux_aio.block.non_vector`: blocks with one buffer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from oneloop import aio
from oneloop.compat.linux_aio.block.rw import RWBlock, writable
from oneloop.compat.linux_aio_bind import IOCBCMD, IOCBPriorityClass

if TYPE_CHECKING:
    from _typeshed import HasFileno, ReadableBuffer

    from oneloop.compat.linux_aio.block.base import AIOBlock

__all__ = ["NonVectorBlock", "ReadBlock", "WriteBlock"]


class NonVectorBlock(RWBlock):
    """A block with one buffer."""

    __slots__ = ("_buffer", "length")

    _buffer: ReadableBuffer
    length: int
    """The number of bytes of the buffer to read or write."""

    def __init__(
        self,
        file: int | HasFileno,
        buffer: str | ReadableBuffer,
        offset: int,
        length: int | None,
        rw_flags: int,
        priority_class: int,
        priority_value: int,
        res_fd: int,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)
        self.offset, self.rw_flag = offset, rw_flags
        self.buffer = buffer
        if length is not None:
            self.length = length

    @property
    def buffer(self) -> ReadableBuffer:
        """The buffer; a str is encoded. Setting it also sets the length."""
        return self._buffer

    @buffer.setter
    def buffer(self, buffer: str | ReadableBuffer) -> None:
        self._buffer = self._accept(buffer)
        self.length = memoryview(self._buffer).nbytes

    @abstractmethod
    def _accept(self, buffer: str | ReadableBuffer) -> ReadableBuffer: ...

    def _convert(self, other: AIOBlock) -> None:
        super()._convert(other)
        self._buffer, self.length = bytearray(), 0
        if isinstance(other, NonVectorBlock):
            self._buffer, self.offset, self.length = other._buffer, other.offset, other.length


class ReadBlock(NonVectorBlock):
    """Reads into a writable buffer."""

    __slots__ = ()

    _CMD = IOCBCMD.PREAD

    def __init__(
        self,
        file: int | HasFileno,
        buffer: str | ReadableBuffer,
        offset: int = 0,
        length: int | None = None,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe a read. A str as buffer stands for a new buffer of the size of its encoding.

        Raises:
            TypeError: the buffer is not writable.
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, buffer, offset, length, rw_flags, priority_class, priority_value, res_fd)

    def _accept(self, buffer: str | ReadableBuffer) -> ReadableBuffer:
        if isinstance(buffer, str):
            return bytearray(buffer, "utf-8")
        writable(buffer)
        return buffer

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.Read(
            self._file,
            writable(self._buffer),
            self.offset,
            self.length,
            rw_flags=self.rw_flag,
            priority_class=priority_class,
            priority_value=priority_value,
            res_fd=res_fd,
        )


class WriteBlock(NonVectorBlock):
    """Writes a buffer."""

    __slots__ = ()

    _CMD = IOCBCMD.PWRITE

    def __init__(
        self,
        file: int | HasFileno,
        content: str | ReadableBuffer,
        offset: int = 0,
        length: int | None = None,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe a write.

        Raises:
            TypeError: the content is neither str nor bytes-like.
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, content, offset, length, rw_flags, priority_class, priority_value, res_fd)

    def _accept(self, buffer: str | ReadableBuffer) -> ReadableBuffer:
        return buffer.encode() if isinstance(buffer, str) else buffer

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.Write(
            self._file,
            self._buffer,
            self.offset,
            self.length,
            rw_flags=self.rw_flag,
            priority_class=priority_class,
            priority_value=priority_value,
            res_fd=res_fd,
        )
