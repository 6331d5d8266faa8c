"""`linux_aio.block`: operations, which can be changed until they are submitted."""

from __future__ import annotations

from oneloop.compat.linux_aio.block.base import AIOBlock
from oneloop.compat.linux_aio.block.non_rw import FDsyncBlock, FsyncBlock, NonRWBlock, PollBlock
from oneloop.compat.linux_aio.block.non_vector import NonVectorBlock, ReadBlock, WriteBlock
from oneloop.compat.linux_aio.block.rw import RWBlock
from oneloop.compat.linux_aio.block.vector import ReadVBlock, VectorBlock, WriteVBlock

__all__ = [
    "AIOBlock",
    "FDsyncBlock",
    "FsyncBlock",
    "NonRWBlock",
    "NonVectorBlock",
    "PollBlock",
    "RWBlock",
    "ReadBlock",
    "ReadVBlock",
    "VectorBlock",
    "WriteBlock",
    "WriteVBlock",
]
