"""Files that never block the loop."""

from __future__ import annotations

from oneloop.files.binary import BinaryFile
from oneloop.files.opening import Opening, open  # noqa: A004 - the built-in's other half
from oneloop.files.text import TextFile
from oneloop.files.unbuffered import UnbufferedFile

__all__ = ["BinaryFile", "Opening", "TextFile", "UnbufferedFile", "open"]
