"""Where a program is in a text file: numbers that `tell()` gives and `seek()` takes, laid out as io's.

A number names a byte from which decoding can start, the decoder's state there, how many bytes to feed it, and how many
of the characters that come out the program has had already. Pure arithmetic on a decoder; no I/O.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import codecs

__all__ = ["Chunk", "History", "Place", "tell", "unpack"]


class Chunk(NamedTuple):
    """Bytes that were decoded at once, and the decoder's state before."""

    flags: int
    # Begins with what the decoder had kept of the chunk before.
    data: bytes
    read_bytes: int
    chars: int


class Place(NamedTuple):
    """What a number says."""

    position: int
    flags: int = 0
    feed_bytes: int = 0
    is_end: bool = False
    skip_chars: int = 0


def pack(place: Place) -> int:
    """Make the number; that of a byte where nothing is to be known besides is its offset."""
    return (
        place.position
        | place.flags << 64
        | place.feed_bytes << 128
        | place.skip_chars << 192
        | bool(place.is_end) << 256
    )


def unpack(number: int) -> Place:
    """Read the number."""
    rest, position = divmod(number, 1 << 64)
    rest, flags = divmod(rest, 1 << 64)
    rest, feed_bytes = divmod(rest, 1 << 64)
    is_end, skip_chars = divmod(rest, 1 << 64)
    return Place(position, flags, feed_bytes, bool(is_end), skip_chars)


class History:
    """The chunks that the text ahead of a program was decoded from, as far as it is not through with them."""

    __slots__ = ("_chars", "chunks")

    def __init__(self, chunk: Chunk | None = None) -> None:
        self.chunks: deque[Chunk] = deque() if chunk is None else deque([chunk])
        self._chars = 0 if chunk is None else chunk.chars

    def add(self, chunk: Chunk, remaining: int) -> None:
        """Another one was decoded, when so many characters of those before were still ahead."""
        used = self._chars - remaining
        while self.chunks and used >= self.chunks[0].chars:
            chars = self.chunks.popleft().chars
            used -= chars
            self._chars -= chars
        self.chunks.append(chunk)
        self._chars += chunk.chars


def tell(decoder: codecs.IncrementalDecoder, history: History, remaining: int, end: int) -> int:
    """Make the number of where the program is.

    Args:
        decoder: is used, and is afterwards as it was.
        history: what was decoded, at least all that text is left of.
        remaining: how many characters are left of them.
        end: the offset where the last chunk ended.

    Raises:
        OSError: the decoder does not do twice what it did once.
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
    """Find the last byte before the program from which decoding can start."""
    start, flags, used = _guess(decoder, chunk, used, position)
    place = Place(position + start, flags)
    if used == 0:
        return place
    # A byte at a time, noting each place where the decoder keeps nothing back.
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
    # The rest comes only when the decoder hears that it was all.
    decoded += len(decoder.decode(b"", True))
    if decoded < used:
        raise OSError("can't reconstruct logical file position")
    return place._replace(feed_bytes=fed, is_end=True, skip_chars=used)


def _guess(decoder: codecs.IncrementalDecoder, chunk: Chunk, used: int, position: int) -> tuple[int, int, int]:
    """Find a start near `used` with few calls of the decoder: the byte, the state there, the characters missing.

    Encodings of a fixed width take one call.
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
    """Have it as it was before the chunk; at the beginning of a file, as io does, without the line ends it has seen."""
    if position or chunk.flags:
        decoder.setstate((b"", chunk.flags))
    else:
        decoder.reset()
