"""`linux_aio.block.base`: the common part of all blocks.

A block describes an operation; `oneloop.aio` checks it, pins its buffers and submits it. Each submission creates a new
request, so a block can be changed and submitted again, even while it is in flight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from oneloop.compat.linux_aio_bind import (
    IOCBCMD,
    IOPRIO_CLASS_SHIFT,
    IOCBFlag,
    IOCBPriorityClass,
    gen_io_priority,
)

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from oneloop import aio

__all__ = ["AIOBlock"]

_VALUE_BITS = (1 << IOPRIO_CLASS_SHIFT) - 1


def _fileno(file: int | HasFileno) -> int:
    if isinstance(file, int):
        return file
    try:
        return file.fileno()
    except AttributeError:
        raise AttributeError(f"a file must be an int or have a fileno() method, not {file!r}") from None


_KINDS: dict[IOCBCMD, type[AIOBlock]] = {}
"""The block class for each command. The classes add themselves."""


class AIOBlock(ABC):
    """An operation on a file; base class of all blocks."""

    __slots__ = ("_file", "_is_converted", "_priority", "_res_fd", "flag")

    _CMD: ClassVar[IOCBCMD]

    def __init_subclass__(cls) -> None:
        if "_CMD" in cls.__dict__:
            _KINDS.setdefault(cls._CMD, cls)

    def __init__(self, file: int | HasFileno, priority_class: int, priority_value: int, res_fd: int) -> None:
        _fileno(file)
        self._file = file
        self._is_converted = False
        self._priority = gen_io_priority(priority_class, priority_value)
        self._res_fd = res_fd
        self.flag = IOCBFlag(0)
        """Whether the kernel uses the priority and `res_fd`. Their setters set the flags."""
        if self._priority != 0:
            self.flag |= IOCBFlag.IOPRIO
        if res_fd != 0:
            self.flag |= IOCBFlag.RESFD

    @property
    def file(self) -> int | HasFileno:
        """The file as it was passed."""
        return self._file

    @file.setter
    def file(self, new_file: int | HasFileno) -> None:
        _fileno(new_file)
        self._file = new_file

    @property
    def fileno(self) -> int:
        """The file's descriptor."""
        return _fileno(self._file)

    @property
    def cmd(self) -> IOCBCMD:
        """The operation of the block."""
        return self._CMD

    @property
    def res_fd(self) -> int | None:
        """The eventfd that is signalled at completion, or None."""
        return self._res_fd or None

    @res_fd.setter
    def res_fd(self, fd: int) -> None:
        self.flag |= IOCBFlag.RESFD
        self._res_fd = fd

    @property
    def priority_class(self) -> IOCBPriorityClass:
        """The class of the I/O priority."""
        return IOCBPriorityClass(self._priority >> IOPRIO_CLASS_SHIFT)

    @priority_class.setter
    def priority_class(self, new_class: int) -> None:
        self.set_priority(new_class, self.priority_value)

    @property
    def priority_value(self) -> int:
        """The I/O priority within its class."""
        return self._priority & _VALUE_BITS

    @priority_value.setter
    def priority_value(self, value: int) -> None:
        self.set_priority(self.priority_class, value)

    def set_priority(self, io_class: int, priority: int) -> None:
        """Set both parts of the I/O priority.

        Args:
            io_class: the class, an `IOCBPriorityClass`.
            priority: the value within the class.

        Raises:
            ValueError: the class or the value does not exist.
        """
        self._priority = gen_io_priority(io_class, priority)
        self.flag |= IOCBFlag.IOPRIO

    def change_cmd(self, new_cmd: int) -> AIOBlock:
        """Return a block of another kind for the same file. This block cannot be submitted any more.

        Reads and writes of the same shape keep their buffers and offsets. Blocks that neither read nor write keep
        neither the priority nor `res_fd`. If the block has the wanted kind already, it is returned itself.

        Args:
            new_cmd: the command, an `IOCBCMD`.

        Raises:
            ValueError: there is no such command.
        """
        wanted = IOCBCMD(new_cmd)
        if wanted is self.cmd:
            return self
        kind = _KINDS[wanted]
        made = kind.__new__(kind)
        made._file, made._is_converted = self._file, False
        made._convert(self)
        self._is_converted = True
        return made

    def _convert(self, other: AIOBlock) -> None:
        """Copy the attributes that both kinds have."""
        self._priority, self._res_fd, self.flag = other._priority, other._res_fd, other.flag

    @abstractmethod
    def _request(self) -> aio.Request:
        """Return a request that describes the operation in its current state."""

    def _effective(self) -> tuple[int, int, int | None]:
        """Priority class, priority value and `res_fd`, as far as `flag` enables them."""
        priority = self._priority if self.flag & IOCBFlag.IOPRIO else 0
        res_fd = self._res_fd if self.flag & IOCBFlag.RESFD else None
        return priority >> IOPRIO_CLASS_SHIFT, priority & _VALUE_BITS, res_fd
