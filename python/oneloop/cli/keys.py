"""`Keys`: single key presses on the terminal of a command that redraws its output."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from typing import Any, Self

__all__ = ["Keys"]


class Keys:
    """Reads keys without waiting for the end of a line. Without a terminal of its own, it only waits."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._settings: list[Any] = []

    def __enter__(self) -> Self:
        try:
            fd = sys.stdin.fileno()
            # A background process that changed the terminal would be stopped: tcsetattr(3).
            if os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp():
                self._settings = termios.tcgetattr(fd)
                tty.setcbreak(fd)
                self._fd = fd
        except (AttributeError, OSError, ValueError, termios.error):
            # Standard input is closed, or is a terminal that this process does not control.
            self._fd = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._settings)

    def wait(self, seconds: float) -> str:
        """Return the next key, or an empty text after this time."""
        if self._fd is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return ""
        read = os.read(self._fd, 64)
        if not read:
            # The terminal has hung up.
            self._fd = None
        return read[:1].decode("ascii", "replace")
