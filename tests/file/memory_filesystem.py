"""`MemoryFilesystem`: a FUSE filesystem with its files in memory, whose every call takes as long as it is told to.

A program: `python -m tests.file.memory_filesystem FOLDER` mounts it and serves it until its standard input ends. It has
to be a process of its own: a test that waits in the kernel may hold the interpreter that would have to answer.
Each line of its input is how long calls take from then on, in seconds; each is answered by a line, and so is the
mounting. Made of mfusepy, which is ctypes on libfuse3 and thereby one package for every Python.
`slow_filesystem.py` starts and ends it.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import stat
import sys
import threading
import time
from typing import Any

from tests.file.slow_filesystem import CANNOT_MOUNT, HELD_S, MNT_DETACH

# libfuse2, which would be taken first, cannot be told not to keep attributes in the same way.
os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

try:
    import mfusepy
except (ImportError, OSError) as exc:
    print(f"mfusepy with libfuse3 is not there: {exc}", file=sys.stderr)
    sys.exit(CANNOT_MOUNT)


class Node:
    """A file: its content and what stat tells of it."""

    def __init__(self, number: int, mode: int) -> None:
        self.number = number
        self.mode = mode
        self.content = bytearray()
        self.times_ns = (time.time_ns(), time.time_ns())


class MemoryFilesystem(mfusepy.Operations):
    """One folder of files. Every call of the kernel's waits for `delay_s` first, and for a tick of the tests' loop."""

    use_ns = True

    def __init__(self, ticks: mmap.mmap) -> None:
        self.delay_s = 0.0
        # Since the last order.
        self.calls = 0
        self.held = 0
        self.under_way = 0
        self._ticks = ticks
        self._counts = threading.Lock()
        self._numbers = itertools.count(1)
        self._files = {"/": Node(next(self._numbers), stat.S_IFDIR | 0o755)}

    def _node(self, path: str) -> Node:
        """Waits as every call does, and finds the file."""
        if self.delay_s:
            self._take_time()
        try:
            return self._files[path]
        except KeyError:
            raise mfusepy.FuseOSError(errno.ENOENT) from None

    def _take_time(self) -> None:
        with self._counts:
            self.calls += 1
            self.under_way += 1
        before = self._ticks[:]
        end_s = time.monotonic() + self.delay_s
        while time.monotonic() < end_s and self.delay_s:
            time.sleep(0.001)
        # A loop that waits for this call has no tick until it ends.
        limit_s = time.monotonic() + HELD_S
        while self._ticks[:] == before and self.delay_s and time.monotonic() < limit_s:
            time.sleep(0.001)
        with self._counts:
            self.under_way -= 1
            self.held += time.monotonic() >= limit_s

    def tell(self) -> str:
        """Counts since the last order, and how many calls are under way."""
        with self._counts:
            told = f"{self.calls} {self.held} {self.under_way}"
            self.calls = self.held = 0
        return told

    # -- of names ----------------------------------------------------------------------------------

    # The kernel's lookup, too.
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        node = self._node(path)
        size, (atime, mtime) = len(node.content), node.times_ns
        return {
            "st_ino": node.number,
            "st_mode": node.mode,
            "st_nlink": 1,
            "st_size": size,
            "st_blocks": (size + 511) // 512,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
            "st_atime": atime,
            "st_mtime": mtime,
            "st_ctime": mtime,
        }

    def opendir(self, path: str) -> int:
        return self._node(path).number

    def readdir(self, path: str, fh: int) -> list[str]:
        self._node(path)
        return [".", "..", *(name[1:] for name in list(self._files) if name != "/")]

    def releasedir(self, path: str, fh: int) -> int:
        self._node(path)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        self._node("/")
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 1 << 20, "f_bfree": 1 << 19, "f_namemax": 255}

    def unlink(self, path: str) -> int:
        self._node(path)
        del self._files[path]
        return 0

    def rename(self, old: str, new: str) -> int:
        self._node(old)
        self._files[new] = self._files.pop(old)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        self._node(path).mode = mode
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        self._node(path)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        self._node(path).times_ns = times or (time.time_ns(), time.time_ns())
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        node = self._node(path)
        del node.content[length:]
        node.content.extend(bytes(length - len(node.content)))
        return 0

    # -- of open files -----------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: object = None) -> int:
        self._node("/")
        self._files[path] = Node(next(self._numbers), stat.S_IFREG | mode)
        return self._files[path].number

    def open(self, path: str, flags: int) -> int:
        node = self._node(path)
        if flags & os.O_TRUNC:
            node.content.clear()
        return node.number

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._node(path).content[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        node = self._node(path)
        node.content.extend(bytes(max(0, offset - len(node.content))))
        node.content[offset : offset + len(data)] = data
        node.times_ns = (node.times_ns[0], time.time_ns())
        return len(data)

    def flush(self, path: str, fh: int) -> int:
        self._node("/")
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._node("/")
        return 0

    def release(self, path: str, fh: int) -> int:
        self._node("/")
        return 0

    def init(self, path: str) -> None:
        print("mounted", flush=True)


def obey(filesystem: MemoryFilesystem, folder: str) -> None:
    """Follow standard input. At its end the tests are over, however they ended: unmount and exit."""
    for line in sys.stdin:
        told = filesystem.tell()
        filesystem.delay_s = float(line)
        print(told, flush=True)
    # Calls that are under way end with an error.
    ctypes.CDLL(None).umount2(os.fsencode(folder), MNT_DETACH)
    os._exit(0)


def main() -> None:
    folder, ticks = sys.argv[1:]
    with open(ticks, "r+b") as file:
        filesystem = MemoryFilesystem(mmap.mmap(file.fileno(), 0))
    threading.Thread(target=obey, args=(filesystem, folder), daemon=True).start()
    try:
        # Zero: the kernel asks each time.
        mfusepy.FUSE(
            filesystem, folder, foreground=True, entry_timeout=0, attr_timeout=0, negative_timeout=0, ac_attr_timeout=0
        )
    except RuntimeError as exc:
        print(f"libfuse cannot mount here: {exc}", file=sys.stderr)
        sys.exit(CANNOT_MOUNT)


if __name__ == "__main__":
    main()
