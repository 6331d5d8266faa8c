"""Where servers write what they were asked, and what went wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LoggingLogAdapter", "NoLog", "log_of", "quoted"]


class NoLog:
    """Writes nothing."""

    def write(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def writelines(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""


class LoggingLogAdapter:
    """A logger of the `logging` module as a file to write to; its other attributes are the logger's.

    Args:
        logger: what is logged to.
        level: of each message.
    """

    __slots__ = ("_level", "_logger")

    def __init__(self, logger: Any, level: int = 20) -> None:
        self._logger = logger
        self._level = level

    def write(self, msg: str) -> None:
        """Log a message, without the end of its line."""
        self._logger.log(self._level, msg.removesuffix("\n"))

    def flush(self) -> None:
        """Nothing."""

    def writelines(self, lines: Iterable[str]) -> None:
        """Log each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in LoggingLogAdapter.__slots__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._logger, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._logger, name)


def log_of(given: Any, level: int) -> Any:
    """What a server writes to: "default": stderr; None: nothing; a logger: at that level; a file: itself."""
    if isinstance(given, str) and given == "default":
        return sys.stderr
    if given is None:
        return NoLog()
    if not hasattr(given, "write") and hasattr(given, "log"):
        return LoggingLogAdapter(given, level)
    return given


def quoted(text: str) -> str:
    r"""A client's text as it may stand between quotes in a line of a log: `"`, `\` and what is not ASCII as `\xNN`."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(char if " " <= char <= "~" and char not in '"\\' else f"\\x{ord(char):02x}" for char in text)
