"""`aiofiles.threadpool.text`: its classes of text files."""

from __future__ import annotations

import io
from typing import Any

from oneloop.compat.aiofiles.base import OURS, AsyncBase, AsyncIndirectBase
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
        """The binary file of a file of io's; UnsupportedOperation for what `open` gave."""
        if isinstance(self._file, OURS):
            raise io.UnsupportedOperation("detach")
        return self._file.detach()


@delegate_to_executor(*_METHODS)
@proxy_method_directly("detach", "fileno")
@proxy_property_directly(*_PROPERTIES)
class AsyncTextIndirectIOWrapper(AsyncIndirectBase):
    """As `AsyncTextIOWrapper`, looked up at each use."""
