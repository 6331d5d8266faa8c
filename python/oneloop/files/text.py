"""`TextFile`: the result of `open()` for text. It decodes the data that a `Handle` reads, and encodes what it writes.

It owns the decoded text and the decoder. The handle owns the descriptor, the position and the turn (the file's lock).
Written text is encoded immediately and buffered in the handle. `cookie.py` computes the positions of tell() and seek().
"""

from __future__ import annotations

import asyncio
import codecs
import io
import os
from operator import index
from typing import TYPE_CHECKING, Any, Self, final

from oneloop import _native
from oneloop.files import cookie
from oneloop.files.binary import LINES_PER_CHECK, BinaryFile
from oneloop.files.coding import CLEAN, Style, decoded, decoder_of, ended, pieces_of
from oneloop.files.engine import bounded
from oneloop.files.file import lines_of
from oneloop.files.views import told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

    from oneloop.files.handle import Handle

__all__ = ["TextFile", "text_file"]

CHUNK_BYTES = 8192
"""Size of one read of io's text files."""

LARGEST_CHUNK_BYTES = 64 * 1024
LARGEST_STEP_BYTES = 128 * 1024
LINES_CHUNK_BYTES = 64 * 1024

UNSEEKABLE = "underlying stream is not seekable"


@final
class TextFile(_native.FastFile):
    """A text file: the methods of `io.TextIOWrapper`, as coroutines.

    Concurrent calls are executed one after the other. Cancelled calls behave as in `BinaryFile`. Use the file only in
    the thread of the loop that opened it.

    `read` returns `size` characters, fewer only at the end of the file, or all remaining text if `size` is negative or
    None. `readline` returns one line with its line end, or its first `size` characters. `write` writes all of a text
    (into the buffer, if it has room) and returns its length. They raise UnicodeDecodeError or UnicodeEncodeError, both
    ValueErrors, for data that is invalid in the file's encoding.

    Differences from io's class: `tell()` works during iteration. More data can be read ahead, so the position of
    `buffer` can be further on in the file. A wrong encoding is reported before the file is opened.
    """

    __slots__ = (
        "_ahead",
        "_binary",
        "_bytes_per_char",
        "_chunk_bytes",
        "_decoder",
        "_encoder",
        "_history",
        "_is_by_line",
        "_is_careful",
        "_is_exact",
        "_style",
    )

    if TYPE_CHECKING:

        def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, str]: ...
        def readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, str]: ...
        def write(self, data: str, /, *, timeout: float | None = None) -> Coroutine[Any, Any, int]: ...

    def __init__(
        self,
        handle: Handle,
        ahead: _native.ReadAhead[str],
        _writes: str,
        _reads: str,
        style: Style,
        is_by_line: bool,
        /,
    ) -> None:
        self._binary: BinaryFile | None = None
        self._style = style
        self._is_by_line = is_by_line
        self._ahead = ahead
        # The chunks from which the read-ahead text was decoded; None if they are not known.
        self._history: cookie.History | None = None
        self._chunk_bytes = CHUNK_BYTES
        mode = handle.opened.mode
        # The read-ahead decides where a following write goes, so it must be as large as in io's files.
        self._is_exact = mode.is_writing
        # Of the last chunk that was read; 0 if it had no characters.
        self._bytes_per_char = 0.0
        # True after a decoding error in a large chunk: decode in small steps.
        self._is_careful = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoder: codecs.IncrementalEncoder | None = None
        if mode.is_writing and handle.opened.is_seekable and handle.tell() != 0:
            # Do not write a byte order mark in the middle of a file.
            self._reset_encoder(1)

    def __repr__(self) -> str:
        return self._handle.opened.described()

    # -- properties ------------------------------------------------------------------------------

    @property
    def buffer(self) -> BinaryFile:
        """The underlying binary file. Its position is after the data that this file has read ahead."""
        if self._binary is None:
            self._binary = BinaryFile(self._handle)
        return self._binary

    @property
    def name(self) -> str | bytes | int:
        """The `file` argument of `open()`."""
        return self._handle.opened.name

    @property
    def mode(self) -> str:
        """The `mode` argument of `open()`."""
        return self._handle.opened.mode.given

    @property
    def encoding(self) -> str:
        """The encoding's name."""
        return self._style.encoding

    @property
    def errors(self) -> str:
        """How encoding and decoding errors are handled."""
        return self._style.errors

    @property
    def newlines(self) -> str | tuple[str, ...] | None:
        """The line ends that have been read so far, as in io; None if there are none, or `newline` was given."""
        found: str | tuple[str, ...] | None = getattr(self._decoder, "newlines", None)
        if self._has_seen_line_feed and not self._style.newline:
            seen = {"\n", *((found,) if isinstance(found, str) else found or ())}
            ordered = tuple(one for one in ("\r", "\n", "\r\n") if one in seen)
            return ordered if len(ordered) > 1 else "\n"
        return found

    @property
    def line_buffering(self) -> bool:
        """True if the buffer is flushed after each line."""
        return self._is_by_line

    @property
    def closed(self) -> bool:
        """True once the file is closed."""
        return self._handle.number < 0

    def fileno(self) -> int:
        """Return the descriptor; see `BinaryFile.fileno`."""
        return self._handle.give_out()

    def isatty(self) -> bool:
        """Return True if the file is a terminal."""
        return self.buffer.isatty()

    def readable(self) -> bool:
        """Return True if the file was opened for reading."""
        return self.buffer.readable()

    def writable(self) -> bool:
        """Return True if the file was opened for writing."""
        return self.buffer.writable()

    def seekable(self) -> bool:
        """Return True if the file supports `seek` and `tell`."""
        return self.buffer.seekable()

    # -- reading ---------------------------------------------------------------------------------

    @bounded
    async def _read(self, size: int | None = -1, /, *, timeout: float | None = None) -> str:
        size = -1 if size is None else index(size)
        ahead = self._ahead
        await self._begin_reading()
        try:
            if size < 0:
                return await self._read_all()
            files = self._handle.files
            while ahead.remaining < size and await self._read_chunk(self._hint(size - ahead.remaining)):
                if files.is_spent():
                    await files.later()
            return ahead.take(size)
        finally:
            self._handle.leave()

    @bounded
    async def _readline(self, size: int = -1, /, *, timeout: float | None = None) -> str:
        limit = index(size)
        await self._begin_reading()
        try:
            return await self._line(limit)
        finally:
            self._handle.leave()

    @bounded
    async def readlines(self, hint: int | None = -1, /, *, timeout: float | None = None) -> list[str]:
        """Return the remaining lines; with a positive `hint`, stop after about that many characters."""
        wanted = -1 if hint is None else index(hint)
        files = self._handle.files
        await self._begin_reading()
        try:
            lines: list[str] = []
            ahead, total = self._ahead, 0
            try:
                while wanted <= 0 or total <= wanted:
                    line = ahead.take_line()
                    if line is None and not (line := await self._line(-1)):
                        break
                    lines.append(line)
                    total += len(line)
                    if len(lines) % LINES_PER_CHECK == 0 and files.is_spent():
                        await files.later()
            except BaseException:
                rest = self._ahead.take()
                self._ahead.feed("".join(lines) + rest)
                self._history = None
                raise
            return lines
        finally:
            self._handle.leave()

    def __aiter__(self) -> AsyncIterator[str]:
        self._handle.check_open()
        if not self._is_exact and self._chunk_bytes < LINES_CHUNK_BYTES:
            self._chunk_bytes = LINES_CHUNK_BYTES
        return lines_of(self)

    # -- writing ---------------------------------------------------------------------------------

    @bounded
    async def _write(self, text: str, /, *, timeout: float | None = None) -> int:
        handle = self._handle
        handle.check_writing("not writable")
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {told(text)}")
        if not handle.take_turn():
            await handle.begin()
        try:
            await self._write_text(text)
        finally:
            handle.leave()
        return len(text)

    @bounded
    async def writelines(self, lines: Iterable[str], /, *, timeout: float | None = None) -> None:
        """Write the lines one after the other, without adding line ends."""
        self._handle.check_writing("not writable")
        for line in lines:
            await self.write(line)

    async def _flush(self, *, timeout: float | None = None) -> None:
        await self.buffer._flush(timeout=timeout)

    async def fsync(self, *, timeout: float | None = None) -> None:
        """Flush the buffer and wait until the file is on the disk."""
        await self.buffer.fsync(timeout=timeout)

    async def fdatasync(self, *, timeout: float | None = None) -> None:
        """Like `fsync`, but without metadata that is not needed to read the file, such as its times."""
        await self.buffer.fdatasync(timeout=timeout)

    # -- the position ----------------------------------------------------------------------------

    @bounded
    async def tell(self, *, timeout: float | None = None) -> int:
        """Return the current position: a number for `seek`, with no other meaning.

        Raises:
            io.UnsupportedOperation: the file cannot seek.
            ValueError: the file is closed.
            OSError: lines of a cancelled `readlines` were not read again.
        """
        handle = self._handle
        handle.check()
        handle.check_seekable(UNSEEKABLE)
        if not handle.take_turn():
            await handle.begin()
        try:
            return await self._tell()
        finally:
            handle.leave()

    @bounded
    async def seek(self, cookie: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Move to a position that `tell` returned, to the beginning (0) or to the end (0, os.SEEK_END).

        Raises:
            ValueError: the file is closed, `whence` is invalid, or `cookie` is negative.
            io.UnsupportedOperation: the file cannot seek, or the offset is relative and not 0.
            OSError: `cookie` is not a number that `tell` returned.
        """
        handle = self._handle
        handle.check()
        handle.check_seekable(UNSEEKABLE)
        if not handle.take_turn():
            await handle.begin()
        try:
            return await self._seek(cookie, whence)
        finally:
            handle.leave()

    async def truncate(self, size: int | None = None, /, *, timeout: float | None = None) -> int:
        """Cut or extend the file to `size` bytes, None: to the current position. Return the new size."""
        return await self.buffer.truncate(size, timeout=timeout)

    # -- closing ---------------------------------------------------------------------------------

    @bounded
    async def _close(self, *_exit: object, timeout: float | None = None) -> None:
        if not self._handle.is_taken:
            self._ahead.clear()
        await self._handle.close()
        self._ahead.clear()

    async def __aenter__(self) -> Self:
        self._handle.check_open()
        return self

    # -- called while holding the turn -----------------------------------------------------------

    async def _begin_reading(self) -> None:
        self._handle.check_reading("not readable")
        await self._handle.begin_reading()

    async def _read_all(self) -> str:
        handle = self._handle
        decoder = self._decoder or self._make_decoder()
        data = await handle.read_all()
        state = decoder.getstate()
        try:
            text = await decoded(handle.files, data, decoder, self._style)
        except asyncio.CancelledError:
            # A cancelled read has read nothing.
            decoder.setstate(state)
            handle.ahead.feed(data)
            raise
        if self._ahead.remaining:
            text = self._ahead.take() + text
        self._ahead.clear()
        self._history = None
        return text

    async def _line(self, limit: int) -> str:
        ahead = self._ahead
        if limit == 0 and not ahead.remaining:
            # io's files also read a chunk before they check the limit.
            await self._read_chunk(0)
        while (line := ahead.take_line(limit)) is None:
            # If the line is longer than all text so far, read as much again.
            if not await self._read_chunk(0 if self._is_exact else ahead.remaining):
                # The end of the file. io's files discard the decoded chunk here.
                self._history = None
                return ahead.take()
            if self._handle.files.is_spent():
                await self._handle.files.later()
        return line

    def _hint(self, missing_chars: int) -> int:
        """Estimate the number of bytes of `missing_chars` characters, as io's files do."""
        return int(max(self._bytes_per_char, 1.0) * missing_chars)

    async def _read_chunk(self, missing: int) -> bool:
        """Read and decode a chunk for at least `missing` bytes. Return False at the end of the file."""
        decoder = self._decoder or self._make_decoder()
        state = decoder.getstate()
        step = self._step(missing)
        # If a write can follow, a chunk must have its full size, as in io's files.
        handle = self._handle
        is_whole = self._is_exact and handle.opened.is_seekable
        data = await (handle.read(step) if is_whole else handle.read_some(step))
        if state == CLEAN and self._is_fed_plain(data):
            # The text is the data unchanged. The decoder only has to see the line end, for `newlines`.
            if not self._style.newline and self.newlines is None and b"\n" in data:
                decoder.decode(b"\n")
            return True
        try:
            text = decoder.decode(data, not data)
        except UnicodeDecodeError:
            if len(data) <= CHUNK_BYTES:
                raise
            # The error must be raised only when the program reaches it. io's files read in small steps, so do the same.
            decoder.setstate(state)
            handle.ahead.feed(data + handle.ahead.take())
            self._is_careful = True
            return True
        ahead = self._ahead
        kept, flags = state
        self._note(cookie.Chunk(int(flags), kept + data, len(data), len(text)), ahead.remaining)
        if text:
            ahead.feed(text)
        return bool(data or text)

    def _is_fed_plain(self, data: bytes) -> bool:
        """Use the data as text without decoding it, if it is ASCII without line ends to translate.

        Return False if it has to be decoded.
        """
        if not self._style.is_ascii_based:
            return False
        remaining = self._ahead.remaining
        # If line ends are recorded but not translated, the decoder has to see them.
        if not self._ahead.feed_ascii(data, not self._style.newline):
            return False
        self._note(cookie.Chunk(0, data, len(data), len(data)), remaining)
        return True

    def _note(self, chunk: cookie.Chunk, remaining: int) -> None:
        """Add a decoded chunk to the history. `remaining` is the number of unread characters before it."""
        if self._history is None:
            self._history = cookie.History()
        self._history.add(chunk, remaining)
        # Kept over `seek`, as in io's files.
        self._bytes_per_char = chunk.read_bytes / chunk.chars if chunk.chars else 0.0

    def _step(self, missing: int) -> int:
        step = self._chunk_bytes
        if self._is_careful:
            return CHUNK_BYTES
        if CHUNK_BYTES < step < LARGEST_CHUNK_BYTES:
            self._chunk_bytes = step * 2
        # Limited so that decoding is short; if a write can follow, the same size as in io's files.
        return max(step, missing if self._is_exact else min(missing, LARGEST_STEP_BYTES))

    def _make_decoder(self) -> codecs.IncrementalDecoder:
        self._decoder = decoder_of(self._style)
        if self._has_seen_line_feed:
            self._decoder.decode(b"\n")
        return self._decoder

    async def _write_text(self, text: str) -> None:
        handle = self._handle
        before = None if self._encoder is None else self._encoder.getstate()
        try:
            pieces = await pieces_of(handle.files, text, lambda piece: self._encode(ended(piece, self._style)))
        except BaseException:
            # Nothing was written: restore the encoder.
            if self._encoder is not None:
                self._encoder.setstate(0 if before is None else before)
                if before is None:
                    self._encoder.reset()
            raise
        if self._history is not None or self._ahead.remaining:
            self._ahead.clear()
            self._history = None
        if handle.ahead.remaining:
            handle.rewind()
        if len(pieces) == 1:
            if not handle.buffer(pieces[0]):
                await handle.write(memoryview(pieces[0]))
        else:
            await self._write_pieces(pieces)
        if self._decoder is not None:
            self._decoder.reset()
        if self._is_by_line and ("\n" in text or "\r" in text):
            await handle.write_out()

    async def _write_pieces(self, pieces: list[bytes]) -> None:
        """Write all pieces. If cancelled, put the rest into the buffer, so that nothing is lost."""
        handle = self._handle
        left = iter(pieces)
        try:
            for piece in left:
                handle.append(piece)
                if handle.files.is_spent():
                    await handle.files.later()
        except BaseException:
            for piece in left:
                handle.append(piece)
            raise
        try:
            await handle.write_out()
        except OSError:
            # As after a shorter text: what comes before it is written again, the text itself is not.
            kept = handle.take_pending()
            handle.append(kept[: max(0, len(kept) - sum(map(len, pieces)))])
            raise

    def _encode(self, text: str) -> bytes:
        if self._style.is_stateless:
            return text.encode(self._style.encoding, self._style.errors)
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._style.encoding)(self._style.errors)
        return self._encoder.encode(text)

    def _reset_encoder(self, position: int) -> None:
        """Make the encoder write a byte order mark at the beginning of the file only."""
        if self._style.is_stateless:
            return
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._style.encoding)(self._style.errors)
        if position:
            self._encoder.setstate(0)
        else:
            self._encoder.reset()

    async def _tell(self) -> int:
        await self._handle.write_out()
        position = self._handle.tell()
        if self._history is None and self._ahead.remaining:
            raise OSError("the position is not known after an interrupted readlines(): read on, or seek first")
        if self._decoder is None or self._history is None:
            return position
        return cookie.tell(self._decoder, self._history, self._ahead.remaining, position)

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
        await self._handle.write_out()
        place = cookie.unpack(target)
        await self._handle.seek(place.position, os.SEEK_SET)
        self._forget()
        if target == 0 and self._decoder is not None:
            self._decoder.reset()
        elif (
            self._decoder is not None
            or place.flags
            or place.skip_chars
            # A new decoder would expect a byte order mark here.
            or (target and not self._style.is_stateless and self.buffer.readable())
        ):
            decoder = self._decoder or self._make_decoder()
            decoder.setstate((b"", place.flags))
            self._history = cookie.History(cookie.Chunk(place.flags, b"", 0, 0))
        if place.skip_chars:
            await self._replay(place)
        self._reset_encoder(place.position or place.flags)
        return target

    async def _seek_end(self) -> int:
        await self._handle.write_out()
        position = await self._handle.seek(0, os.SEEK_END)
        self._forget()
        if self._decoder is not None:
            self._decoder.reset()
        self._reset_encoder(position)
        return position

    async def _replay(self, place: cookie.Place) -> None:
        """Decode again from a safe position, and skip the characters that the program had already read."""
        decoder = self._decoder or self._make_decoder()
        data = await self._handle.read(place.feed_bytes)
        text = decoder.decode(data, place.is_end)
        if len(text) < place.skip_chars:
            raise OSError("can't restore logical file position")
        self._history = cookie.History(cookie.Chunk(place.flags, data, len(data), len(text)))
        self._ahead.feed(text)
        self._ahead.move(place.skip_chars)

    def _forget(self) -> None:
        self._ahead.clear()
        self._history = None
        self._chunk_bytes = CHUNK_BYTES


def text_file(handle: Handle, style: Style, is_by_line: bool) -> TextFile:
    """Return the text file of a handle; `is_by_line`: each line is flushed."""
    newline, mode = style.newline, handle.opened.mode
    # The native half cannot discard read-ahead data, so it writes only if the file is not open for reading.
    is_plain = style.is_utf8 and newline in (None, "", "\n") and not mode.is_reading
    writes = "nothing" if not is_plain else "text within lines" if is_by_line else "text"
    # The native half handles ASCII only. The decoder handles everything else, such as a byte order mark.
    reads = "nothing" if not style.is_utf8 else "text" if newline else "text with any line ends"
    ahead: _native.ReadAhead[str] = _native.ReadAhead("\n" if newline is None else newline)
    return TextFile(handle, ahead, writes, reads, style, is_by_line)
