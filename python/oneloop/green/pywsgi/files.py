"""`FileWrapper`: `wsgi.file_wrapper`, which makes a file the body of a response."""

from __future__ import annotations

from typing import Any

__all__ = ["FileWrapper"]


class FileWrapper:
    """Iterates over a file's data in blocks. Closing it closes the file.

    Args:
        filelike: an object with a `read` method.
        block_size: the number of bytes per block.
    """

    def __init__(self, filelike: Any, block_size: int = 65_536) -> None:
        self.filelike = filelike
        self.block_size = block_size

    def close(self) -> None:
        """Close the file if it has a `close` method."""
        close = getattr(self.filelike, "close", None)
        if close is not None:
            close()

    def __iter__(self) -> FileWrapper:
        return self

    def __next__(self) -> Any:
        data = self.filelike.read(self.block_size)
        if not data:
            raise StopIteration
        return data
