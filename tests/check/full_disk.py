"""A disk that takes only so much of what is written."""

from __future__ import annotations

import errno
import os

import pytest


class FullDisk:
    """Every `os.write` takes what there is room for, and fails where there is none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self._write = os.write
        monkeypatch.setattr(os, "write", self._write_some)

    def _write_some(self, fd: int, data: bytes) -> int:
        if not self.room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = self._write(fd, bytes(data[: self.room_bytes]))
        self.room_bytes -= done
        return done
