"""`FileWrapper`: `wsgi.file_wrapper`, a file as the body of a response."""

from __future__ import annotations

from typing import Any

__all__ = ["FileWrapper"]


class FileWrapper:
    """Gives a file's bytes in blocks; closed, it closes the file.

    Args:
        filelike: what has a method `read`.
        block_size: so many bytes at a time.
    """

    def __init__(self, filelike: Any, block_size: int = 65_536) -> None:
        self.filelike = filelike
        self.block_size = block_size

    def close(self) -> None:
        """Close the file, if that can be closed."""
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
