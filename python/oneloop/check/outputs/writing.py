"""`write_all`: writes bytes to a file descriptor until none are left."""

from __future__ import annotations

import os
import select

__all__ = ["write_all"]


def write_all(fd: int, data: bytearray, name: str) -> None:
    """Write `data` and remove from it what was written.

    Args:
        fd: a file, pipe or terminal, in blocking mode or not.
        data: the bytes. What could not be written stays there, so that a later call can continue.
        name: what errors call the file.

    Raises:
        OSError: as write(2) reports it, with `name` as its filename.
    """
    while data:
        try:
            written = os.write(fd, data)
        except BlockingIOError:
            # Another program set this pipe or terminal to non-blocking mode.
            waiting = select.poll()
            waiting.register(fd, select.POLLOUT)
            waiting.poll()
            continue
        except OSError as error:
            error.filename = name
            raise
        del data[:written]
