"""Splits an input into lines of bounded length. Does not interpret them.

A line ends with a line feed. Bytes that are not UTF-8 become lone surrogates (PEP 383), because they may be in a part
of the line that is not used.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["LINE_BYTES", "TooLong", "lines_of"]

LINE_BYTES = 1024 * 1024
"""The longest line that is accepted."""

_START_BYTES = 1000


@dataclass(frozen=True, slots=True)
class TooLong:
    """Replaces a line that is longer than LINE_BYTES. `text` is the beginning of the line."""

    text: str


async def lines_of(blocks: AsyncIterator[bytes]) -> AsyncGenerator[list[str] | TooLong, None]:
    """Split blocks into lines.

    Args:
        blocks: the content.

    Returns:
        An iterator of lists of complete lines with their line feeds, and of `TooLong`, which replaces one line.
    """
    pieces: list[bytes] = []  # of the line that has not ended yet
    kept_bytes = 0
    mark = b"\xef\xbb\xbf"  # the byte order mark to remove from the first line; empty after it
    async for block in blocks:
        end = block.rfind(b"\n") + 1
        if not end:
            if kept_bytes <= LINE_BYTES:
                pieces.append(block)
            kept_bytes += len(block)
            continue
        first = block.find(b"\n") + 1
        if kept_bytes + first > LINE_BYTES:
            yield TooLong(_decoded(b"".join([*pieces, block[:first]])[:_START_BYTES]))
            whole = block[first:end]
        else:
            whole = b"".join([*pieces, block[:end]]).removeprefix(mark)
        mark = b""
        pieces = [block[end:]]
        kept_bytes = len(pieces[0])
        if whole:
            yield list(io.StringIO(_decoded(whole), newline="\n"))
    last = b"".join(pieces).removeprefix(mark)
    if kept_bytes > LINE_BYTES:
        yield TooLong(_decoded(last[:_START_BYTES]))
    elif last:
        yield [_decoded(last)]


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")
