"""The logs of servers: for requests and for errors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LoggingLogAdapter", "NoLog", "log_of", "quoted"]


class NoLog:
    """A log that writes nothing."""

    def write(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def writelines(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


class LoggingLogAdapter:
    """A file-like object that writes to a `logging` logger. Its other attributes are the logger's.

    Args:
        logger: the logger.
        level: the level of each message.
    """

    __slots__ = ("_level", "_logger")

    def __init__(self, logger: Any, level: int = 20) -> None:
        self._logger = logger
        self._level = level

    def write(self, msg: str) -> None:
        """Log a message, without its line end."""
        self._logger.log(self._level, msg.removesuffix("\n"))

    def flush(self) -> None:
        """Do nothing."""

    def writelines(self, lines: Iterable[str]) -> None:
        """Log each line."""
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
    """Return the log for an argument of a server.

    Args:
        given: "default" for stderr, None to write nothing, a logger, or a file.
        level: the level of messages if `given` is a logger.
    """
    if isinstance(given, str) and given == "default":
        return sys.stderr
    if given is None:
        return NoLog()
    if not hasattr(given, "write") and hasattr(given, "log"):
        return LoggingLogAdapter(given, level)
    return given


def quoted(text: str) -> str:
    r"""Escape a client's text for quotes in a log line: `"`, `\` and non-ASCII characters become `\xNN`."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(char if " " <= char <= "~" and char not in '"\\' else f"\\x{ord(char):02x}" for char in text)
