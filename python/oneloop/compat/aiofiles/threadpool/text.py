"""`aiofiles.threadpool.text`: the classes of text files."""

from __future__ import annotations

from typing import Any

from oneloop.compat.aiofiles.base import AsyncBase, AsyncIndirectBase
from oneloop.compat.aiofiles.detaching import detach
from oneloop.compat.aiofiles.threadpool.utils import (
    delegate_to_executor,
    proxy_method_directly,
    proxy_property_directly,
)

__all__ = ["AsyncTextIOWrapper", "AsyncTextIndirectIOWrapper"]

_METHODS = (
    "close",
    "flush",
    "isatty",
    "read",
    "readable",
    "readline",
    "readlines",
    "seek",
    "seekable",
    "tell",
    "truncate",
    "write",
    "writable",
    "writelines",
)
_PROPERTIES = ("buffer", "closed", "encoding", "errors", "line_buffering", "newlines", "name", "mode")


@delegate_to_executor(*_METHODS)
@proxy_method_directly("fileno")
@proxy_property_directly(*_PROPERTIES)
class AsyncTextIOWrapper(AsyncBase):
    """A text file."""

    def detach(self) -> Any:
        """Return the binary io file inside. This file cannot be used any more."""
        return detach(self)


@delegate_to_executor(*_METHODS)
@proxy_method_directly("detach", "fileno")
@proxy_property_directly(*_PROPERTIES)
class AsyncTextIndirectIOWrapper(AsyncIndirectBase):
    """Like `AsyncTextIOWrapper`, but the file is looked up at each use."""
