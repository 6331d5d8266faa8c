"""`Reader`: a connection's input as a file. A head that arrives in one piece takes one receive."""

from __future__ import annotations

from time import monotonic
from typing import Any, Self

from oneloop.green import socket as _socket
from oneloop.green.pywsgi import heads

__all__ = ["Reader"]

CR = 13
RECEIVED_BYTES = 16_384
MAX_RECEIVED_BYTES = 262_144


class Lines:
    """Line iteration for classes with `readline`."""

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line with its end, at most `size` bytes. Empty at the end."""
        raise NotImplementedError

    def readlines(self, hint: int | None = None) -> list[bytes]:
        """Read the remaining lines, until they have at least `hint` bytes."""
        lines = []
        length = 0
        for line in self:
            lines.append(line)
            length += len(line)
            if hint is not None and 0 < hint <= length:
                break
        return lines

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise StopIteration
        return line


class Reader(Lines):
    """The `rfile` of a handler. Reading waits in the calling green thread.

    A receive with a limit of `patience_s` seconds sets `deadline_s`. After that time, the server raises TimeoutError in
    it: the server checks all of its connections every second, which is cheaper than a timer for each receive.
    """

    __slots__ = ("_at", "_buffer", "_sock", "closed", "deadline_s", "is_idle", "max_head_bytes", "patience_s")

    def __init__(self, sock: Any, max_head_bytes: int = 65_536) -> None:
        self._sock = sock
        self._buffer = b""
        self._at = 0
        self.closed = False
        self.is_idle = False
        """Whether it waits for the first byte of a request."""
        self.deadline_s: float | None = None
        self.patience_s: float | None = None
        self.max_head_bytes = max_head_bytes

    @property
    def raw(self) -> Reader:
        """Programs that take over a connection use `rfile.raw._sock`."""
        return self

    def fileno(self) -> int:
        """The connection's descriptor."""
        number: int = self._sock.fileno()
        return number

    def readable(self) -> bool:
        """Return True."""
        return True

    def end_wait(self) -> None:
        """Raise TimeoutError in the green thread that waits for the connection, if there is one."""
        if self._sock.fileno() >= 0:
            _socket.cancel_wait(self._sock, TimeoutError("timed out"))

    def close(self) -> None:
        """Stop reading. The socket stays open."""
        self.closed = True

    @property
    def has_rest(self) -> bool:
        """Whether received data has not been read yet."""
        return self._at < len(self._buffer)

    def _receive(self, limit: int = RECEIVED_BYTES) -> bytes:
        """Receive some bytes; empty at the end. The buffer must be empty, or the caller must handle its content."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self.patience_s is not None:
            self.deadline_s = monotonic() + self.patience_s
        try:
            data: bytes = self._sock.recv(limit)
        finally:
            self.deadline_s = None
        return data

    # -- heads ---------------------------------------------------------------------------------------

    def read_head(self, idle_timeout_s: float | None, head_timeout_s: float | None) -> heads.Parsed | None:
        """Read the next head.

        Args:
            idle_timeout_s: the maximum time until the first byte, in seconds; None means no limit.
            head_timeout_s: the maximum time from then until the head is complete, in seconds; None means no limit.

        Returns:
            The parsed head; None if the connection ends, or no byte arrives in time.

        Raises:
            HeadError: the head is refused.
            TimeoutError: the head was started but did not arrive in time.
            OSError: the connection is broken.
        """
        if self._at == len(self._buffer):
            self._at = 0
            self._buffer = b""
            self.is_idle = True
            self.patience_s = idle_timeout_s
            try:
                self._buffer = self._receive()
            except TimeoutError:
                return None
            finally:
                self.is_idle = False
            if not self._buffer:
                return None
        parsed = None if self._buffer[self._at] == CR else heads.parse(self._buffer, self._at)
        if parsed is None or parsed[4] - self._at > self.max_head_bytes:
            parsed = self._read_slow_head(head_timeout_s)
        if parsed is not None:
            self._at = parsed[4]
            if self._at == len(self._buffer):
                self._buffer = b""
                self._at = 0
        return parsed

    def _read_slow_head(self, head_timeout_s: float | None) -> heads.Parsed | None:
        """Read a head that arrives in several pieces, follows an empty line, or is too long."""
        end_s = None if head_timeout_s is None else monotonic() + head_timeout_s
        self.patience_s = None
        buffer = bytearray(memoryview(self._buffer)[self._at :])
        self._buffer, self._at = bytes(buffer), 0
        seen = 0
        while True:
            if buffer[:2] == b"\r\n":
                # Some clients send an empty line after a body (RFC 9112, 2.2).
                del buffer[:2]
                seen = 0
            end = buffer.find(heads.END, max(seen - 3, 0))
            if end > self.max_head_bytes or (end < 0 and len(buffer) > self.max_head_bytes):
                line_end = buffer.find(b"\r\n")
                is_target = line_end < 0 or line_end > self.max_head_bytes
                raise heads.HeadError(f"the head has more than {self.max_head_bytes} bytes", 414 if is_target else 431)
            if end >= 0:
                self._buffer = bytes(buffer)
                return heads.parse(self._buffer)
            _refuse_bare_line_end(buffer, seen)
            line_end = buffer.find(b"\r\n") if seen <= heads.MAX_REQUEST_LINE else -1
            if line_end >= 0:
                # A client that sends something else does not send a whole head either.
                heads.parse_request_line(buffer[:line_end].decode("latin-1"))
            seen = len(buffer)
            if end_s is not None:
                self.deadline_s = end_s
                if monotonic() > end_s:
                    raise TimeoutError("timed out")
            try:
                more = self._sock.recv(RECEIVED_BYTES)
            finally:
                self.deadline_s = None
            if not more:
                self._buffer = b""
                return None
            buffer += more

    # -- as a file -----------------------------------------------------------------------------------

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, fewer at the end of the connection; everything up to the end if None or negative."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read1(MAX_RECEIVED_BYTES), b""))
        at, end = self._at, self._at + size
        if end <= len(self._buffer):
            self._at = end
            return self._buffer[at:end]
        pieces = [self._buffer[at:]]
        left = size - len(pieces[0])
        self._buffer, self._at = b"", 0
        while left > 0:
            data = self._receive(min(left, MAX_RECEIVED_BYTES))
            if not data:
                break
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces)

    def read1(self, size: int = -1) -> bytes:
        """Read available data, at most `size` bytes; wait if there is none. Empty at the end of the connection."""
        size = MAX_RECEIVED_BYTES if size < 0 else size
        if self._at == len(self._buffer):
            return self._receive(min(size, MAX_RECEIVED_BYTES)) if size else b""
        at = self._at
        self._at = min(at + size, len(self._buffer))
        return self._buffer[at : self._at]

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it if the connection ends first. Return the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line with its end; only its beginning if it is longer than `size` or the connection ends."""
        limit = None if size is None or size < 0 else size
        pieces: list[bytes] = []
        length = 0
        while True:
            stop = len(self._buffer) if limit is None else min(self._at + limit - length, len(self._buffer))
            newline = self._buffer.find(b"\n", self._at, stop)
            end = stop if newline < 0 else newline + 1
            pieces.append(self._buffer[self._at : end])
            length += end - self._at
            self._at = end
            if newline >= 0 or length == limit:
                return b"".join(pieces)
            self._buffer, self._at = self._receive(), 0
            if not self._buffer:
                return b"".join(pieces)


def _refuse_bare_line_end(buffer: bytearray, start: int) -> None:
    """Refuse a head with lines that end with LF alone. Its end would never be found."""
    at = buffer.find(b"\n", start)
    while at >= 0:
        if at == 0 or buffer[at - 1] != CR:
            raise heads.HeadError("the head has a line that does not end with CR LF")
        at = buffer.find(b"\n", at + 1)
