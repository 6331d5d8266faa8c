"""`aiofiles.threadpool.binary`: its classes of binary files."""

from __future__ import annotations

from typing import Any

from oneloop.compat.aiofiles.base import AsyncBase, AsyncIndirectBase
from oneloop.compat.aiofiles.detaching import detach
from oneloop.compat.aiofiles.threadpool.utils import (
    delegate_to_executor,
    proxy_method_directly,
    proxy_property_directly,
)

__all__ = [
    "AsyncBufferedIOBase",
    "AsyncBufferedReader",
    "AsyncFileIO",
    "AsyncIndirectBufferedIOBase",
    "AsyncIndirectBufferedReader",
    "AsyncIndirectFileIO",
]

_SHARED = (
    "close",
    "flush",
    "isatty",
    "read",
    "readinto",
    "readline",
    "readlines",
    "seek",
    "seekable",
    "tell",
    "truncate",
    "writable",
    "write",
    "writelines",
)


@delegate_to_executor(*_SHARED, "read1")
@proxy_method_directly("fileno", "readable")
@proxy_property_directly("closed", "raw", "name", "mode")
class AsyncBufferedIOBase(AsyncBase):
    """A file that is open for writing in binary, buffered."""

    def detach(self) -> Any:
        """The raw file inside, as io's; this one is of no use any more."""
        return detach(self)


@delegate_to_executor("peek")
class AsyncBufferedReader(AsyncBufferedIOBase):
    """A file that is open for reading, or both, in binary, buffered."""


@delegate_to_executor(*_SHARED, "readall")
@proxy_method_directly("fileno", "readable")
@proxy_property_directly("closed", "name", "mode")
class AsyncFileIO(AsyncBase):
    """A binary file without a buffer."""


@delegate_to_executor(*_SHARED, "read1")
@proxy_method_directly("detach", "fileno", "readable")
@proxy_property_directly("closed", "raw", "name", "mode")
class AsyncIndirectBufferedIOBase(AsyncIndirectBase):
    """As `AsyncBufferedIOBase`, looked up at each use."""


@delegate_to_executor("peek")
class AsyncIndirectBufferedReader(AsyncIndirectBufferedIOBase):
    """As `AsyncBufferedReader`, looked up at each use."""


@delegate_to_executor(*_SHARED, "readall")
@proxy_method_directly("fileno", "readable")
@proxy_property_directly("closed", "name", "mode")
class AsyncIndirectFileIO(AsyncIndirectBase):
    """As `AsyncFileIO`, looked up at each use."""
