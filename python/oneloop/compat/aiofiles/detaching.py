"""Detaching: exchanging an open file for an io file, as io's own `detach()` does."""

from __future__ import annotations

import io
import os
from typing import Any, final

from oneloop.compat.aiofiles.base import OURS
from oneloop.files.text import TextFile

__all__ = ["Detached", "detach"]


@final
class Detached:
    """Replaces a file after `detach()`. Every use raises ValueError, as in io."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise ValueError(f"{self._name} has been detached")


def detach(wrapper: Any) -> Any:
    """Return the file inside: the raw file of a binary file, the buffered file of a text file.

    Blocks the loop while it writes pending data, as io's `detach()` does.

    Raises:
        ValueError: the file is closed, or was detached before.
    """
    file = wrapper._file
    if not isinstance(file, OURS):
        return file.detach()
    is_text = isinstance(file, TextFile)
    binary: Any = file.buffer if isinstance(file, TextFile) else file
    number = binary.fileno()
    position = binary.handle.tell() if binary.seekable() else None
    binary.handle.rescue()
    raw = io.FileIO(os.dup(number), binary.mode.replace("t", ""))
    if position is not None:
        raw.seek(position)
    binary.handle.abandon()
    wrapper._file = Detached("underlying buffer" if is_text else "raw stream")
    if not is_text:
        return raw
    if not raw.readable():
        return io.BufferedWriter(raw)
    return io.BufferedRandom(raw) if raw.writable() else io.BufferedReader(raw)
