"""`Input`: the body of a request, `wsgi.input`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from oneloop.green.pywsgi.heads import END, HeadError, environ_key
from oneloop.green.pywsgi.reader import Lines

if TYPE_CHECKING:
    from oneloop.green.pywsgi.reader import Reader

__all__ = ["Input", "InvalidInputError"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MAX_CHUNK_LINE_BYTES = 1024
MAX_TRAILER_BYTES = 8192
# The chunk extensions are ignored, except that their characters are checked.
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n").fullmatch


class InvalidInputError(OSError):
    """The body ends early or is not framed correctly. The connection is closed after this error."""


class Input(Lines):
    """The body of a request, read in the green thread that handles the request.

    If the client has requested it, `100 Continue` is sent before the body is read first.

    Args:
        rfile: the connection's reader.
        content_length: the length in bytes; None if there is no body or it is chunked.
        socket: the socket to send `100 Continue` to; None to send nothing.
        chunked_input: whether the body is chunked.
    """

    __slots__ = ("_is_broken", "_left", "chunked_input", "content_length", "position", "rfile", "socket", "trailers")

    def __init__(
        self, rfile: Reader, content_length: int | None, socket: Any = None, chunked_input: bool = False
    ) -> None:
        self.rfile = rfile
        self.content_length = content_length
        self.socket = socket
        self.chunked_input = chunked_input
        self.position = 0
        """The number of body bytes that were read."""
        self.trailers: list[tuple[str, str]] = []
        """The trailer fields of a chunked body, once it was read to its end."""
        self._is_broken = False
        # The bytes left of the body or of the current chunk; None if the next chunk's head has to be read.
        self._left: int | None = None if chunked_input else content_length or 0

    @property
    def is_at_end(self) -> bool:
        """Whether the body was read to its end."""
        return self._left == 0 and not self.chunked_input

    @property
    def is_broken(self) -> bool:
        """Whether reading the body has failed, so that its end is unknown."""
        return self._is_broken

    def send_hundred_continue_response(self) -> None:
        """Send `100 Continue` if the client waits for it. Reading the body does this automatically."""
        sock, self.socket = self.socket, None
        if sock is not None:
            sock.sendall(CONTINUE)

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes of the body.

        Args:
            size: the maximum number of bytes; None or a negative number means the rest of the body.

        Returns:
            `size` bytes, or fewer at the end of the body.

        Raises:
            OSError: the body ends early or is not framed correctly.
        """
        wanted = None if size is None or size < 0 else size
        if not self.chunked_input and self._left is not None:
            # The common case: the body is not chunked.
            length = self._left if wanted is None else min(wanted, self._left)
            return self._take(length) if length else b""
        pieces = []
        while wanted != 0 and self._begin_piece():
            assert self._left is not None
            data = self._take(self._left if wanted is None else min(wanted, self._left))
            pieces.append(data)
            if wanted is not None:
                wanted -= len(data)
        return b"".join(pieces)

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line, at most `size` bytes. Empty at the end of the body. Raises the same errors as `read`."""
        wanted = None if size is None or size < 0 else size
        pieces = []
        while wanted != 0 and self._begin_piece():
            assert self._left is not None
            data = self._take(self._left if wanted is None else min(wanted, self._left), is_line=True)
            pieces.append(data)
            if data.endswith(b"\n"):
                break
            if wanted is not None:
                wanted -= len(data)
        return b"".join(pieces)

    def discard(self, limit: int) -> bool:
        """Read the rest of the body if it is at most `limit` bytes. Return whether the body is at its end."""
        if self.is_at_end:
            return True
        if self._is_broken or self.socket is not None or (self.content_length or 0) - self.position > limit:
            return False
        while limit > 0 and self._begin_piece():
            assert self._left is not None
            limit -= len(self._take(min(self._left, limit)))
        return self.is_at_end

    # -- chunks --------------------------------------------------------------------------------------

    def _begin_piece(self) -> bool:
        """Start the next chunk if needed. False at the end of the body."""
        if self._left is None:
            if self._is_broken:
                raise InvalidInputError("the body is not framed correctly")
            self.send_hundred_continue_response()
            self._left = self._read_chunk_head()
            if self._left == 0:
                self._read_trailers()
                self.chunked_input = False
        return self._left > 0

    def _take(self, length: int, is_line: bool = False) -> bytes:
        """Read `length` bytes of the current chunk or body; fewer only if a line ends first. Also read chunk ends."""
        if self.socket is not None:
            self.send_hundred_continue_response()
        try:
            data = self.rfile.readline(length) if is_line else self.rfile.read(length)
        except BaseException:
            # Data that was received before is lost, so the start of the next request is unknown.
            self._broken("")
            raise
        self.position += len(data)
        if len(data) < length and not (is_line and data.endswith(b"\n")):
            raise self._broken(f"the connection ended at byte {self.position} of the body")
        assert self._left is not None
        self._left -= len(data)
        if self.chunked_input and not self._left:
            if self.rfile.read(2) != b"\r\n":
                raise self._broken("a chunk is longer than its head says")
            self._left = None
        return data

    def _read_chunk_head(self) -> int:
        line = self.rfile.readline(MAX_CHUNK_LINE_BYTES)
        match = _CHUNK_LINE(line)
        if match is None:
            raise self._broken(f"invalid head of a chunk: {line[:40]!r}")
        return int(match[1], 16)

    def _read_trailers(self) -> None:
        left = MAX_TRAILER_BYTES
        while (line := self.rfile.readline(left)) != END[:2]:
            left -= len(line)
            name, colon, value = line[:-2].decode("latin-1").partition(":")
            try:
                environ_key(name)
            except HeadError as error:
                raise self._broken(str(error)) from None
            is_plain = not any(ord(char) < 32 or ord(char) == 127 for char in value.replace("\t", " "))
            if not line.endswith(b"\r\n") or not colon or not is_plain or left <= 0:
                raise self._broken(f"invalid trailer field: {line[:40]!r}")
            self.trailers.append((name, value.strip(" \t")))

    def _broken(self, message: str) -> InvalidInputError:
        self._is_broken = True
        self._left = None
        return InvalidInputError(message)
