"""`linux_aio.block.non_rw`: blocks without a buffer."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from oneloop import aio
from oneloop.compat.linux_aio.block.base import AIOBlock
from oneloop.compat.linux_aio_bind import IOCBCMD, IOCBFlag, IOCBPriorityClass

if TYPE_CHECKING:
    from _typeshed import HasFileno

__all__ = ["FDsyncBlock", "FsyncBlock", "NonRWBlock", "PollBlock"]


class NonRWBlock(AIOBlock):
    """A block without a buffer."""

    __slots__ = ()

    def __init__(
        self,
        file: int | HasFileno,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe the operation.

        Raises:
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, priority_class, priority_value, res_fd)

    def _convert(self, other: AIOBlock) -> None:
        self._priority, self._res_fd, self.flag = 0, 0, IOCBFlag(0)


class FsyncBlock(NonRWBlock):
    """Waits until a file's content and metadata are on the disk."""

    __slots__ = ()

    _CMD = IOCBCMD.FSYNC

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.Fsync(self._file, priority_class=priority_class, priority_value=priority_value, res_fd=res_fd)


class FDsyncBlock(NonRWBlock):
    """Waits until a file's content is on the disk."""

    __slots__ = ()

    _CMD = IOCBCMD.FDSYNC

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.Fdsync(self._file, priority_class=priority_class, priority_value=priority_value, res_fd=res_fd)


class PollBlock(NonRWBlock):
    """Waits until a file is ready for one of the events."""

    __slots__ = ("event_masks",)

    _CMD = IOCBCMD.POLL
    _DEFAULT_MASKS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLPRI

    event_masks: int
    """select.EPOLLIN and similar constants; can be changed until the block is submitted."""

    def __init__(
        self,
        file: int | HasFileno,
        event_masks: int | None = None,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int = 0,
    ) -> None:
        """Describe a poll. Without a mask, it polls for reading, writing and urgent data.

        Raises:
            AttributeError: the file has no `fileno()`.
        """
        super().__init__(file, priority_class, priority_value, res_fd)
        self.event_masks = self._DEFAULT_MASKS if event_masks is None else event_masks

    def _convert(self, other: AIOBlock) -> None:
        super()._convert(other)
        self.event_masks = self._DEFAULT_MASKS

    def _request(self) -> aio.Request:
        priority_class, priority_value, res_fd = self._effective()
        return aio.Poll(
            self._file,
            self.event_masks,
            priority_class=priority_class,
            priority_value=priority_value,
            res_fd=res_fd,
        )
