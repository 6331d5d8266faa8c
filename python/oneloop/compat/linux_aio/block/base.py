"""`linux_aio.block.base`: what all blocks have in common.

A block describes; `oneloop.aio` checks, pins and submits. Each submission makes a request of its own, so
that a block may be changed and submitted again, also while it is in flight.
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
        raise AttributeError(f"a file is an int or has a fileno() method, which {file!r} has not") from None


_KINDS: dict[IOCBCMD, type[AIOBlock]] = {}
"""The block for each command: filled by the classes themselves."""


class AIOBlock(ABC):
    """An operation on a file: what all kinds have in common."""

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
        """Which of the priority and `res_fd` the kernel looks at; their setters say so here."""
        if self._priority != 0:
            self.flag |= IOCBFlag.IOPRIO
        if res_fd != 0:
            self.flag |= IOCBFlag.RESFD

    @property
    def file(self) -> int | HasFileno:
        """The file, as it was given."""
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
        """What the block does."""
        return self._CMD

    @property
    def res_fd(self) -> int | None:
        """The eventfd that is raised at the completion, or None."""
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

        Raises:
            ValueError: there is no such class or value.
        """
        self._priority = gen_io_priority(io_class, priority)
        self.flag |= IOCBFlag.IOPRIO

    def change_cmd(self, new_cmd: int) -> AIOBlock:
        """Return a block of another kind for the same file; this one cannot be submitted any more.

        Reads and writes of the same shape keep their buffers and where they begin. What neither reads nor
        writes keeps neither priority nor `res_fd`. The block itself, if it is of that kind already.

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
        """Take over what this kind has in common with the other."""
        self._priority, self._res_fd, self.flag = other._priority, other._res_fd, other.flag

    @abstractmethod
    def _request(self) -> aio.Request:
        """Describe the operation to the kernel, as it is now."""

    def _effective(self) -> tuple[int, int, int | None]:
        """Priority class and value, and `res_fd`, as far as `flag` lets the kernel see them."""
        priority = self._priority if self.flag & IOCBFlag.IOPRIO else 0
        res_fd = self._res_fd if self.flag & IOCBFlag.RESFD else None
        return priority >> IOPRIO_CLASS_SHIFT, priority & _VALUE_BITS, res_fd
