"""Lines of an input, many at a time, each bounded in length; knows nothing of what they say.

A line ends with a line feed. Bytes that are no UTF-8 become lone surrogates (PEP 383), for perhaps
nobody needs them.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["LINE_BYTES", "TooLong", "lines_of"]

LINE_BYTES = 1024 * 1024
"""A line may be so long."""

_START_BYTES = 1000


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that is longer than LINE_BYTES: how it begins."""

    text: str


async def lines_of(blocks: AsyncIterator[bytes]) -> AsyncGenerator[list[str] | TooLong, None]:
    """Lists of lines, each with its end, as far as they have come; a TooLong stands for one line."""
    pieces: list[bytes] = []  # of the line that has not ended
    kept_bytes = 0
    mark = b"\xef\xbb\xbf"  # until the first line is there
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
