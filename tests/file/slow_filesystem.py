"""`SlowFilesystem`: a mounted FUSE filesystem whose every call takes `DELAY_S` when a test says so.

`memory_filesystem.py` serves it, in a process of its own: a test that blocks in the kernel may hold the interpreter
lock, which a server in the same process would need in order to answer. `mounted()` ends the mount and the server
however its block is left. Should the tests be killed, the server sees the end of its input and unmounts by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DELAY_S = 0.1
# A call that the loop waits for lasts so much longer: until then, a tick of the loop ends it.
HELD_S = 10.0
# For the server to mount, and to follow an order.
LIMIT_S = 60.0
CANNOT_MOUNT = 77
"""Exit status of a server that cannot mount here; the last line of its stderr is the reason."""
MNT_DETACH = 2
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Calls:
    """What became of the calls inside of `slow()`; filled in at its end."""

    made: int = 0
    held: int = 0
    """Of those, during which the loop had no tick."""
    under_way: int = 0
    """At the end."""


class SlowFilesystem:
    """A mounted folder. Calls take time only inside of `slow()`."""

    def __init__(self, folder: Path, server: subprocess.Popen[str], ticks: mmap.mmap) -> None:
        self.folder = folder
        self._server = server
        self._ticks = ticks

    def tick(self) -> None:
        """The loop goes on."""
        self._ticks[:] = (int.from_bytes(self._ticks[:], "little") + 1).to_bytes(len(self._ticks), "little")

    @contextlib.contextmanager
    def slow(self, delay_s: float = DELAY_S) -> Iterator[Calls]:
        """Each call that the kernel makes takes so long: a lookup, a getattr, an open, a read, a flush, ...

        They end with the block.
        """
        calls = Calls()
        self._order(delay_s)
        try:
            yield calls
        finally:
            calls.made, calls.held, calls.under_way = self._order(0)

    def _order(self, delay_s: float) -> list[int]:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{delay_s}\n")
        self._server.stdin.flush()
        answer = _answer(self._server)
        assert answer, f"the server of {self.folder} has ended"
        return [int(count) for count in answer.split()]


def _answer(server: subprocess.Popen[str]) -> str:
    """The server's next line; empty if it has ended."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], LIMIT_S)
    assert ready, f"the filesystem's server did not answer within {LIMIT_S:g} s"
    return server.stdout.readline()


def _unmount(folder: Path) -> None:
    """End the mount if there is one. Nothing is asked of the server, which may be gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    # EINVAL: it is not mounted. EPERM: only root may call it; others have libfuse's program.
    if libc.umount2(os.fsencode(folder), MNT_DETACH) != 0 and os.geteuid() != 0:
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["fusermount3", "-u", "-z", folder], capture_output=True, check=False)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[SlowFilesystem]:
    """Mount on an empty folder; skips the test, with the reason, where that is impossible."""
    ticks_path = folder.parent / f"{folder.name}.ticks"
    ticks_path.write_bytes(bytes(8))
    command = [sys.executable, "-m", "tests.file.memory_filesystem", str(folder), str(ticks_path)]
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        # A session of its own: Ctrl-C is for the tests, which end it.
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            if not _answer(server):
                status = server.wait(LIMIT_S)
                log.seek(0)
                said = log.read()
                if status == CANNOT_MOUNT:
                    pytest.skip(f"no FUSE filesystem can be mounted here: {said.splitlines()[-1]}")
                pytest.fail(f"the filesystem's server ended with status {status}:\n{said}")
            with ticks_path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as ticks:
                yield SlowFilesystem(folder, server, ticks)
        finally:
            # What still waits for the server gets an error now.
            server.kill()
            server.wait()
            _unmount(folder)
            for pipe in (server.stdin, server.stdout):
                assert pipe is not None
                pipe.close()
