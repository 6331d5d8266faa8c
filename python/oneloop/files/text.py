"""`TextFile`: what `open()` gives for text: decodes what a `BinaryFile` reads, encodes what it writes.

It owns the decoded text and the decoder; the descriptor, the cursor and the turn are the binary file's. What it writes
is encoded at once and pending there. Where the program is in the file, tell() and seek(), is `cookie.py`'s business.
"""

from __future__ import annotations

import codecs
import io
import os
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, NamedTuple, Self, final

from oneloop import _native
from oneloop.files import cookie
from oneloop.files.binary import BinaryFile, text_repr
from oneloop.files.deadline import within
from oneloop.files.readahead import ReadAhead, lines_of, read_ahead
from oneloop.files.views import told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable
    from types import TracebackType


__all__ = ["Style", "TextFile", "style_of"]

CHUNK_BYTES = 8192
"""As much as io's text files read at once."""

# What a decoder's `getstate` gives when it keeps nothing back.
CLEAN = (b"", 0)

LARGEST_CHUNK_BYTES = 64 * 1024
LINES_CHUNK_BYTES = 64 * 1024

# Encoded without a state, so that str.encode() does it; what is missing here goes through an incremental encoder.
STATELESS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1252"})

# Where ASCII characters are bytes, and other bytes are no ASCII characters.
ASCII_BASED = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})


class Style(NamedTuple):
    """How a text file turns bytes into text."""

    encoding: str
    errors: str
    newline: str | None
    is_stateless: bool
    is_ascii_based: bool


def style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    """Check these arguments of `open()`, and look up what they mean.

    Raises:
        TypeError, ValueError, LookupError: as `open()` raises them.
    """
    if encoding == "locale" or not (type(encoding) is str and (errors is None or type(errors) is str)):
        return _style_of.__wrapped__(encoding, errors, newline)
    return _style_of(encoding, errors, newline)


@lru_cache(maxsize=64)
def _style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    # io's own class knows best what it takes.
    wrapper = io.TextIOWrapper(io.BytesIO(), encoding, errors, newline)
    codec = codecs.lookup(wrapper.encoding)
    return Style(
        wrapper.encoding, wrapper.errors or "strict", newline, codec.name in STATELESS, codec.name in ASCII_BASED
    )


@final
class TextFile:
    """A text file: the methods of `io.TextIOWrapper`, as coroutines.

    Concurrent calls are served one after the other. A cancelled read has read nothing; a cancelled write has written
    nothing, or everything, as in `BinaryFile`.

    Differences from io's: `tell()` works during iteration; more may be read ahead, so that `buffer` is further on in
    the file; a wrong encoding is told before the file is opened.
    """

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_binary",
        "_chunk_bytes",
        "_chunks",
        "_decoder",
        "_encoder",
        "_is_by_line",
        "_is_careful",
        "_is_exact",
        "_style",
        "_turn",
    )

    def __init__(self, binary: BinaryFile, style: Style, *, line_buffering: bool) -> None:
        self._binary = binary
        self._style = style
        self._is_by_line = line_buffering
        self._turn = binary._turn
        binary.text_encoding = style.encoding
        newline = style.newline
        self._ahead: ReadAhead[str] = read_ahead("\n" if newline is None else newline)
        # Chunks that the text ahead was decoded from; None where that is not known.
        self._chunks: list[cookie.Chunk] | None = None
        self._chunk_bytes = CHUNK_BYTES
        # How much is read ahead decides where a write goes that follows: as much as io's files read then.
        self._is_exact = binary._mode.is_writing
        # Something ahead cannot be decoded.
        self._is_careful = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoder: codecs.IncrementalEncoder | None = None
        if binary._mode.is_writing and binary._is_seekable and binary._tell() != 0:
            # No byte order mark in the middle of a file.
            self._reset_encoder(1)

    def __repr__(self) -> str:
        return text_repr(self.name, self.mode, self.encoding)

    # -- what it is ------------------------------------------------------------------------------

    @property
    def buffer(self) -> BinaryFile:
        """The binary file below; its cursor is behind what this file has read ahead."""
        return self._binary

    @property
    def name(self) -> str | bytes | int:
        """What `open()` was told."""
        return self._binary.name

    @property
    def mode(self) -> str:
        """The mode that `open()` was told."""
        return self._binary._mode.given

    @property
    def encoding(self) -> str:
        """The encoding's name."""
        return self._style.encoding

    @property
    def errors(self) -> str:
        """What happens to what cannot be decoded or encoded."""
        return self._style.errors

    @property
    def newlines(self) -> str | tuple[str, ...] | None:
        """The line ends seen so far, where they are looked at."""
        found: str | tuple[str, ...] | None = getattr(self._decoder, "newlines", None)
        return found

    @property
    def line_buffering(self) -> bool:
        """Whether each line is flushed."""
        return self._is_by_line

    @property
    def closed(self) -> bool:
        """True once the descriptor is given back."""
        return self._binary.closed

    def fileno(self) -> int:
        """The descriptor's number; see `BinaryFile.fileno`."""
        return self._binary.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._binary.isatty()

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._binary.readable()

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._binary.writable()

    def seekable(self) -> bool:
        """Whether `seek` and `tell` work."""
        return self._binary.seekable()

    # -- reading ---------------------------------------------------------------------------------

    async def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> str:
        """`size` characters, fewer only at the end; all that is left if `size` is negative or None.

        Raises:
            ValueError: the file is closed; UnicodeDecodeError: it is not in this encoding.
            io.UnsupportedOperation: it was not opened for reading.
            OSError: the kernel says so.
        """
        if timeout is not None:
            return await within(timeout, self.read(size))
        size = -1 if size is None else index(size)
        ahead = self._ahead
        if 0 < size <= ahead.remaining and not self._turn.is_taken:
            return ahead.take(size)
        await self._begin_reading()
        try:
            if size < 0:
                return await self._read_all()
            while ahead.remaining < size and await self._read_chunk(self._hint(size - ahead.remaining)):
                pass
            return ahead.take(size)
        finally:
            self._turn.leave()

    async def readline(self, size: int = -1, /, *, timeout: float | None = None) -> str:
        """One line with its end, or its first `size` characters; "" at the end."""
        if timeout is not None:
            return await within(timeout, self.readline(size))
        limit = index(size)
        await self._begin_reading()
        try:
            return await self._line(limit)
        finally:
            self._turn.leave()

    async def readlines(self, hint: int | None = -1, /, *, timeout: float | None = None) -> list[str]:
        """The lines that are left; with a `hint`, only so many that they reach that many characters."""
        if timeout is not None:
            return await within(timeout, self.readlines(hint))
        wanted = -1 if hint is None else index(hint)
        await self._begin_reading()
        try:
            lines: list[str] = []
            total = 0
            while (wanted <= 0 or total <= wanted) and (line := await self._line(-1)):
                lines.append(line)
                total += len(line)
            return lines
        finally:
            self._turn.leave()

    def __aiter__(self) -> AsyncIterator[str]:
        self._binary._check_open()
        if not self._is_exact and self._chunk_bytes < LINES_CHUNK_BYTES:
            self._chunk_bytes = LINES_CHUNK_BYTES
        return lines_of(self, self._ahead)

    async def _next_line(self) -> str:
        return await self.readline()

    # -- writing ---------------------------------------------------------------------------------

    async def write(self, text: str, /, *, timeout: float | None = None) -> int:
        """Write all of `text`, into the buffer if it has room; returns its length.

        Raises:
            ValueError: the file is closed; UnicodeEncodeError: the encoding does not have it.
            io.UnsupportedOperation: the file was not opened for writing.
            TypeError: `text` is no string.
            OSError: the kernel says so. What was written before stays in the buffer.
        """
        if timeout is not None:
            return await within(timeout, self.write(text))
        self._binary._check_writing("not writable")
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {told(text)}")
        await self._binary._begin_plain()
        try:
            await self._write(text)
        finally:
            self._turn.leave()
        return len(text)

    async def writelines(self, lines: Iterable[str], /, *, timeout: float | None = None) -> None:
        """Write one after the other."""
        if timeout is not None:
            return await within(timeout, self.writelines(lines))
        self._binary._check_writing("not writable")
        for line in lines:
            await self.write(line)
        return None

    async def flush(self, *, timeout: float | None = None) -> None:
        """Hand everything that was written to the kernel; see `BinaryFile.flush`."""
        await self._binary.flush(timeout=timeout)

    async def fsync(self, *, timeout: float | None = None) -> None:
        """Flush, and wait until the disk has the file."""
        await self._binary.fsync(timeout=timeout)

    async def fdatasync(self, *, timeout: float | None = None) -> None:
        """Like `fsync`, without what nobody needs to read the file (its times)."""
        await self._binary.fdatasync(timeout=timeout)

    # -- the cursor ------------------------------------------------------------------------------

    async def tell(self, *, timeout: float | None = None) -> int:
        """Where the program is: a number for `seek`, with no other meaning."""
        if timeout is not None:
            return await within(timeout, self.tell())
        self._binary._descriptor.check()
        self._check_seekable()
        await self._binary._begin_plain()
        try:
            return await self._tell()
        finally:
            self._turn.leave()

    async def seek(self, cookie: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Go to where `tell` was called, to the beginning (0) or to the end (0, os.SEEK_END).

        Raises:
            ValueError: the file is closed, there is no such `whence`, or `cookie` is negative.
            io.UnsupportedOperation: the file has no position, or text has no such distance.
            OSError: `tell` never gave this number.
        """
        if timeout is not None:
            return await within(timeout, self.seek(cookie, whence))
        self._binary._descriptor.check()
        self._check_seekable()
        await self._binary._begin_plain()
        try:
            return await self._seek(cookie, whence)
        finally:
            self._turn.leave()

    async def truncate(self, size: int | None = None, /, *, timeout: float | None = None) -> int:
        """Cut or extend the file to `size` bytes, or to where the cursor is; returns the size."""
        if timeout is not None:
            return await within(timeout, self.truncate(size))
        return await self._binary.truncate(size)

    # -- the end ---------------------------------------------------------------------------------

    async def close(self, *, timeout: float | None = None) -> None:
        """Write out what is buffered and give the descriptor back; see `BinaryFile.close`."""
        if not self._turn.is_taken:
            self._ahead.clear()
        await self._binary.close(timeout=timeout)
        self._ahead.clear()

    async def __aenter__(self) -> Self:
        self._binary._check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- by the holder of the turn ---------------------------------------------------------------

    async def _begin_reading(self) -> None:
        self._binary._check_reading("not readable")
        await self._binary._begin_reading()

    def _check_seekable(self) -> None:
        if not self._binary._is_seekable:
            raise io.UnsupportedOperation("underlying stream is not seekable")

    async def _read_all(self) -> str:
        decoder = self._decoder or self._make_decoder()
        data = await self._held(self._binary._read_all())
        text = decoder.decode(data, True)
        if self._ahead.remaining:
            text = self._ahead.take() + text
        self._ahead.clear()
        self._chunks = None
        return text

    async def _line(self, limit: int) -> str:
        ahead = self._ahead
        while (line := ahead.take_line(limit)) is None:
            # A line that is longer than everything so far asks for as much again.
            if not await self._read_chunk(0 if self._is_exact else ahead.remaining):
                # The end, which io's files take for a place where nothing was decoded.
                self._chunks = None
                return ahead.take()
        return line

    def _hint(self, missing_chars: int) -> int:
        """Guess how many bytes so many characters are, as io's files do."""
        last = self._chunks[-1] if self._chunks else None
        ratio = last.read_bytes / last.chars if last is not None and last.chars else 0.0
        return int(max(ratio, 1.0) * missing_chars)

    async def _read_chunk(self, missing: int) -> bool:
        """Decode a chunk, of that many bytes at least. False at the end of the file."""
        decoder = self._decoder or self._make_decoder()
        state = decoder.getstate()
        step = self._step(missing)
        # What is read ahead must be all that was asked for where a write may follow.
        reading = (
            self._binary._read(step) if self._is_exact and self._binary._is_seekable else self._binary._read1(step)
        )
        data = await self._held(reading)
        if state == CLEAN and self._is_fed_plain(data):
            # Decoding gives a character for each byte, the same; but for the newline, which is noted.
            if self._style.newline is None and self.newlines is None and b"\n" in data:
                decoder.decode(b"\n")
            return True
        try:
            text = decoder.decode(data, not data)
        except UnicodeDecodeError:
            if len(data) <= CHUNK_BYTES:
                raise
            # It is to be raised when the program gets there, and io's files get there in small steps.
            decoder.setstate(state)
            self._binary._ahead.feed(data + self._binary._ahead.take())
            self._is_careful = True
            return True
        ahead = self._ahead
        kept, flags = state
        self._chunks = cookie.known(self._chunks or [], ahead.remaining)
        self._chunks.append(cookie.Chunk(int(flags), kept + data, len(data), len(text)))
        if text:
            ahead.feed(text)
        return bool(data or text)

    def _is_fed_plain(self, data: bytes) -> bool:
        """Read ahead without decoding, where that would change nothing. False if it would."""
        # The native class says it is its twin here.
        ahead: object = self._ahead
        if not self._style.is_ascii_based or not isinstance(ahead, _native.ReadAhead):
            return False
        remaining = ahead.remaining
        if not ahead.feed_ascii(data, self._style.newline is None):
            return False
        self._chunks = cookie.known(self._chunks or [], remaining)
        self._chunks.append(cookie.Chunk(0, data, len(data), len(data)))
        return True

    async def _held(self, reading: Coroutine[object, object, bytes]) -> bytes:
        """Wait for bytes; until they are here, nobody takes of the text that is ahead."""
        self._ahead.is_held = True
        try:
            return await reading
        finally:
            self._ahead.is_held = False

    def _step(self, missing: int) -> int:
        step = self._chunk_bytes
        if self._is_careful:
            return CHUNK_BYTES
        if CHUNK_BYTES < step < LARGEST_CHUNK_BYTES:
            self._chunk_bytes = step * 2
        return max(step, missing)

    def _make_decoder(self) -> codecs.IncrementalDecoder:
        decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(self._style.encoding)(self._style.errors)
        if not self._style.newline:
            # It has a decoder's methods.
            decoder = io.IncrementalNewlineDecoder(decoder, translate=self._style.newline is None)  # type: ignore[assignment]
        self._decoder = decoder
        return decoder

    async def _write(self, text: str) -> None:
        newline = self._style.newline
        if newline and newline != "\n" and "\n" in text:
            data = self._encode(text.replace("\n", newline))
        else:
            data = self._encode(text)
        if self._chunks is not None or self._ahead.remaining:
            self._ahead.clear()
            self._chunks = None
        binary = self._binary
        if not binary._buffered(data):
            await binary._write(memoryview(data))
        if self._decoder is not None:
            self._decoder.reset()
        if self._is_by_line and ("\n" in text or "\r" in text):
            await binary._flush()

    def _encode(self, text: str) -> bytes:
        if self._style.is_stateless:
            return text.encode(self._style.encoding, self._style.errors)
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._style.encoding)(self._style.errors)
        return self._encoder.encode(text)

    def _reset_encoder(self, position: int) -> None:
        """A byte order mark stands at the beginning and nowhere else."""
        if self._style.is_stateless:
            return
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._style.encoding)(self._style.errors)
        if position:
            self._encoder.setstate(0)
        else:
            self._encoder.reset()

    async def _tell(self) -> int:
        await self._binary._flush()
        position = self._binary._tell()
        if self._decoder is None or self._chunks is None:
            return position
        return cookie.tell(self._decoder, self._chunks, self._ahead.remaining, position)

    async def _seek(self, target: int, whence: int) -> int:
        if whence == os.SEEK_CUR:
            if target != 0:
                raise io.UnsupportedOperation("can't do nonzero cur-relative seeks")
            target = await self._tell()
        elif whence == os.SEEK_END:
            if target != 0:
                raise io.UnsupportedOperation("can't do nonzero end-relative seeks")
            return await self._seek_end()
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if target < 0:
            raise ValueError(f"negative seek position {target!r}")
        await self._binary._flush()
        place = cookie.unpack(target)
        self._binary._seek(place.position, os.SEEK_SET)
        self._forget()
        if target == 0 and self._decoder is not None:
            self._decoder.reset()
        elif (
            self._decoder is not None
            or place.flags
            or place.skip_chars
            # A new decoder would look for a byte order mark, here where none can be.
            or (target and not self._style.is_stateless and self._binary.readable())
        ):
            decoder = self._decoder or self._make_decoder()
            decoder.setstate((b"", place.flags))
            self._chunks = [cookie.Chunk(place.flags, b"", 0, 0)]
        if place.skip_chars:
            await self._replay(place)
        self._reset_encoder(place.position or place.flags)
        return target

    async def _seek_end(self) -> int:
        await self._binary._flush()
        position = self._binary._seek(0, os.SEEK_END)
        self._forget()
        if self._decoder is not None:
            self._decoder.reset()
        self._reset_encoder(position)
        return position

    async def _replay(self, place: cookie.Place) -> None:
        """Decode again what was read from a safe place on, and skip what the program had of it."""
        decoder = self._decoder or self._make_decoder()
        data = await self._binary._read(place.feed_bytes)
        text = decoder.decode(data, place.is_end)
        if len(text) < place.skip_chars:
            raise OSError("can't restore logical file position")
        self._chunks = [cookie.Chunk(place.flags, data, len(data), len(text))]
        self._ahead.feed(text)
        self._ahead.move(place.skip_chars)

    def _forget(self) -> None:
        self._ahead.clear()
        self._chunks = None
        self._chunk_bytes = CHUNK_BYTES
