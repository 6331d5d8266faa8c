"""Positions in a text file: the numbers that `tell()` returns and `seek()` accepts, in the format of `io`.

A number contains the offset of a byte from which decoding can start, the decoder's state there, how many bytes to feed
to the decoder, and how many of the decoded characters to skip. This file computes with a decoder and does no I/O.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import codecs

__all__ = ["Chunk", "History", "Place", "tell", "unpack"]


class Chunk(NamedTuple):
    """Bytes that were decoded in one call, and the decoder's state before it."""

    flags: int
    # Starts with the bytes that the decoder had kept from the previous chunk.
    data: bytes
    read_bytes: int
    chars: int


class Place(NamedTuple):
    """The fields of a number."""

    position: int
    flags: int = 0
    feed_bytes: int = 0
    is_end: bool = False
    skip_chars: int = 0


def pack(place: Place) -> int:
    """Pack the fields into a number. If all other fields are 0, it is the byte offset."""
    return (
        place.position
        | place.flags << 64
        | place.feed_bytes << 128
        | place.skip_chars << 192
        | bool(place.is_end) << 256
    )


def unpack(number: int) -> Place:
    """Unpack a number into its fields."""
    rest, position = divmod(number, 1 << 64)
    rest, flags = divmod(rest, 1 << 64)
    rest, feed_bytes = divmod(rest, 1 << 64)
    is_end, skip_chars = divmod(rest, 1 << 64)
    return Place(position, flags, feed_bytes, bool(is_end), skip_chars)


class History:
    """The chunks from which the text was decoded that the program has not read completely."""

    __slots__ = ("_chars", "chunks")

    def __init__(self, chunk: Chunk | None = None) -> None:
        self.chunks: deque[Chunk] = deque() if chunk is None else deque([chunk])
        self._chars = 0 if chunk is None else chunk.chars

    def add(self, chunk: Chunk, remaining: int) -> None:
        """Add a decoded chunk. `remaining` is the number of unread characters of the chunks before it."""
        used = self._chars - remaining
        while self.chunks and used >= self.chunks[0].chars:
            chars = self.chunks.popleft().chars
            used -= chars
            self._chars -= chars
        self.chunks.append(chunk)
        self._chars += chunk.chars


def tell(decoder: codecs.IncrementalDecoder, history: History, remaining: int, end: int) -> int:
    """Return the number for the program's current position.

    Args:
        decoder: used for trial decoding; its state is restored.
        history: the decoded chunks, at least all that have unread text.
        remaining: the number of unread characters in these chunks.
        end: the byte offset where the last chunk ends.

    Raises:
        OSError: decoding the same bytes again gives fewer characters than before.
    """
    chunks = [*history.chunks]
    used = sum(chunk.chars for chunk in chunks) - remaining
    position = end - sum(chunk.read_bytes for chunk in chunks)
    for chunk in chunks[:-1]:
        if used < chunk.chars:
            break
        used -= chunk.chars
        position += chunk.read_bytes
    else:
        chunk = chunks[-1]
    position -= len(chunk.data) - chunk.read_bytes
    if used == 0:
        return pack(Place(position, chunk.flags))
    state = decoder.getstate()
    try:
        return pack(_search(decoder, chunk, used, position))
    finally:
        decoder.setstate(state)


def _search(decoder: codecs.IncrementalDecoder, chunk: Chunk, used: int, position: int) -> Place:
    """Find the last byte before the current position from which decoding can start."""
    start, flags, used = _guess(decoder, chunk, used, position)
    place = Place(position + start, flags)
    if used == 0:
        return place
    # Decode byte by byte. Remember each place where the decoder keeps no bytes back.
    fed = decoded = 0
    for at in range(start, len(chunk.data)):
        fed += 1
        decoded += len(decoder.decode(chunk.data[at : at + 1]))
        kept, flags = decoder.getstate()
        if not kept and decoded <= used:
            place = Place(place.position + fed, int(flags))
            used -= decoded
            fed = decoded = 0
        if decoded >= used:
            return place._replace(feed_bytes=fed, skip_chars=used)
    # The decoder returns the rest only with final=True.
    decoded += len(decoder.decode(b"", True))
    if decoded < used:
        raise OSError("can't reconstruct logical file position")
    return place._replace(feed_bytes=fed, is_end=True, skip_chars=used)


def _guess(decoder: codecs.IncrementalDecoder, chunk: Chunk, used: int, position: int) -> tuple[int, int, int]:
    """Find a start byte near `used` characters with few decoder calls; one call for fixed-width encodings.

    Returns:
        The byte's index in the chunk, the decoder's flags there, and the characters still to skip.
    """
    start = int(chunk.read_bytes / chunk.chars * used) if chunk.chars else 0
    back = 1
    while start > 0:
        _start(decoder, chunk, position)
        decoded = len(decoder.decode(chunk.data[:start]))
        if decoded <= used:
            kept, flags = decoder.getstate()
            if not kept:
                return start, int(flags), used - decoded
            start -= len(kept)
            back = 1
        else:
            start -= back
            back *= 2
    _start(decoder, chunk, position)
    return 0, chunk.flags, used


def _start(decoder: codecs.IncrementalDecoder, chunk: Chunk, position: int) -> None:
    """Set the decoder to its state before the chunk. At the beginning of a file reset it, as `io` does."""
    if position or chunk.flags:
        decoder.setstate((b"", chunk.flags))
    else:
        decoder.reset()
