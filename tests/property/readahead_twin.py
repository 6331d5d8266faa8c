"""`ReadAhead`: the plain twin of the native class of that name."""

from __future__ import annotations

from typing import AnyStr, Generic, final


@final
class ReadAhead(Generic[AnyStr]):
    r"""What was read and not yet taken.

    Args:
        newline: what ends a line: b"\n", "\n", "\r", "\r\n", or "" for any of the three.

    """

    __slots__ = ("_at", "_data", "_empty", "_newline", "_searched")

    def __init__(self, newline: AnyStr) -> None:
        self._newline: AnyStr = newline
        self._empty: AnyStr = newline[:0]
        self._data: AnyStr = self._empty
        self._at = 0
        # No newline before here.
        self._searched = 0

    @property
    def remaining(self) -> int:
        """How much can be taken."""
        return len(self._data) - self._at

    def feed(self, data: AnyStr) -> None:
        """Append what was read."""
        if not data:
            return
        if self._at == len(self._data):
            self._data = data
            self._searched = 0
        else:
            self._data = self._data[self._at :] + data
            self._searched = max(0, self._searched - self._at)
        self._at = 0

    def take(self, size: int = -1) -> AnyStr:
        """Up to `size` of it; all when negative."""
        at = self._at
        if size < 0 or at + size >= len(self._data):
            taken = self._data[at:]
            self._at = len(self._data)
        else:
            self._at = at + size
            taken = self._data[at : self._at]
        return taken

    def take_line(self, limit: int = -1) -> AnyStr | None:
        """A line with its end, or its first `limit`; None if neither is there yet."""
        at = self._at
        if self._newline:
            end = self._data.find(self._newline, max(at, self._searched))
            if end >= 0:
                end += len(self._newline)
        else:
            end = self._end_of_any_line(max(at, self._searched))
        if end < 0:
            # The first half of "\r\n" may be the last that is here.
            self._searched = max(at, len(self._data) - 1)
            if limit < 0 or len(self._data) - at < limit:
                return None
            end = at + limit
        elif 0 <= limit < end - at:
            end = at + limit
        self._at = end
        return self._data[at:end]

    def _end_of_any_line(self, start: int) -> int:
        r"""Return where the line ends that ends with "\n", "\r" or "\r\n"; -1 if that is not known yet.

        A "\r" at the very end ends a line: the decoder keeps one back as long as a "\n" may follow.
        """
        data = self._data
        assert isinstance(data, str)
        line_feed = data.find("\n", start)
        end = data.find("\r", start, line_feed if line_feed >= 0 else len(data))
        if end < 0:
            return line_feed + 1 if line_feed >= 0 else -1
        return end + 2 if end + 1 == line_feed else end + 1

    def peek(self) -> AnyStr:
        """Everything that `take()` would give, which stays."""
        return self._data[self._at :]

    def move(self, distance: int) -> bool:
        """Skip, or go back if it is still here. False if it is not, and nothing has changed."""
        at = self._at + distance
        if not 0 <= at <= len(self._data):
            return False
        if distance < 0:
            self._searched = 0
        self._at = at
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._data = self._empty
        self._at = self._searched = 0
