"""`aiofiles.threadpool.binary`: the classes of binary files."""

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
    """A buffered binary file that is open for writing."""

    def detach(self) -> Any:
        """Return the raw io file inside. This file cannot be used any more."""
        return detach(self)


@delegate_to_executor("peek")
class AsyncBufferedReader(AsyncBufferedIOBase):
    """A buffered binary file that is open for reading, or for both."""


@delegate_to_executor(*_SHARED, "readall")
@proxy_method_directly("fileno", "readable")
@proxy_property_directly("closed", "name", "mode")
class AsyncFileIO(AsyncBase):
    """A binary file without a buffer."""


@delegate_to_executor(*_SHARED, "read1")
@proxy_method_directly("detach", "fileno", "readable")
@proxy_property_directly("closed", "raw", "name", "mode")
class AsyncIndirectBufferedIOBase(AsyncIndirectBase):
    """Like `AsyncBufferedIOBase`, but the file is looked up at each use."""


@delegate_to_executor("peek")
class AsyncIndirectBufferedReader(AsyncIndirectBufferedIOBase):
    """Like `AsyncBufferedReader`, but the file is looked up at each use."""


@delegate_to_executor(*_SHARED, "readall")
@proxy_method_directly("fileno", "readable")
@proxy_property_directly("closed", "name", "mode")
class AsyncIndirectFileIO(AsyncIndirectBase):
    """Like `AsyncFileIO`, but the file is looked up at each use."""
