"""`Cutter` and `Lines`: the body of a response in parts of a size, and in lines."""

from __future__ import annotations

from typing import Any

__all__ = ["Cutter", "Lines"]


class Cutter:
    """Cuts parts to a size."""

    def __init__(self, size: int | None, empty: Any = b"") -> None:
        self._size = size
        # Parts that are together shorter than the size.
        self._held: list[Any] = []
        self._len = 0
        self._empty = empty

    def add(self, piece: Any) -> list[Any]:
        size = self._size
        if size is None:
            return [piece] if piece else []
        self._held.append(piece)
        self._len += len(piece)
        if self._len < size:
            return []
        held = self._empty.join(self._held)
        whole = len(held) - len(held) % size
        self._held, self._len = [held[whole:]], len(held) - whole
        return [held[at : at + size] for at in range(0, whole, size)]

    def rest(self) -> list[Any]:
        held = self._empty.join(self._held)
        self._held, self._len = [], 0
        return [held] if held else []


class Lines:
    """Splits text into lines as `str.splitlines` does, of which a part may end within a line or a CRLF."""

    def __init__(self) -> None:
        # The parts of a line whose end has not come.
        self._held: list[str] = []
        self._has_return = False

    def add(self, text: str) -> list[str]:
        if self._has_return:
            text = "\r" + text
        # It may be the first half of a CRLF.
        self._has_return = text.endswith("\r")
        if self._has_return:
            text = text[:-1]
        lines = text.splitlines(keepends=True)
        last = ""
        if lines and lines[-1][-1:].splitlines() != [""]:
            last = lines.pop()
        if lines:
            lines[0] = "".join([*self._held, lines[0]])
            self._held = []
        if last:
            self._held.append(last)
        return [line.splitlines()[0] for line in lines]

    def rest(self) -> list[str]:
        held = "".join(self._held) + ("\r" if self._has_return else "")
        self._held, self._has_return = [], False
        return held.splitlines()
