"""Large results that were read in pieces are joined on another thread than the loop's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import _native, files
from oneloop.files import engine as file_engine
from oneloop.files import handle
from tests.file.conftest import ENGINES

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in has no threads"),
]

PIECE_BYTES = 64 * 1024
CONTENT = os.urandom(5 * PIECE_BYTES)


async def pipe(path: Path) -> bytes:
    reading, writing = os.pipe()
    sender = threading.Thread(target=send, args=(writing,))
    sender.start()
    async with files.open(reading, "rb") as file:
        content = await file.read()
    sender.join()
    return content


async def piped_whole(path: Path) -> bytes:
    fifo = path.with_suffix(".fifo")
    os.mkfifo(fifo)
    sender = threading.Thread(target=lambda: send(os.open(fifo, os.O_WRONLY)))
    sender.start()
    content = await files.read_file(fifo)
    sender.join()
    return content


def send(fd: int) -> None:
    with open(fd, "wb") as file:
        file.write(CONTENT)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("read", [pipe, piped_whole])
async def test_joined_on_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any]
) -> None:
    threads: list[int] = []
    real_join = _native.join_bytes

    def join_bytes(pieces: list[bytes]) -> bytes:
        threads.append(threading.get_ident())
        return real_join(pieces)

    monkeypatch.setattr(_native, "join_bytes", join_bytes)
    for module in (handle, file_engine):
        monkeypatch.setattr(module, "MUCH_BYTES", 2 * PIECE_BYTES)
    assert await read(tmp_path / "file") == CONTENT
    assert threads, "nothing was joined: this test shows nothing"
    assert threading.get_ident() not in threads
