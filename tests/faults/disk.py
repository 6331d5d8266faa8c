"""A filesystem in memory that records what is done to it: FUSE, spoken with the kernel directly (linux/fuse.h).

All engines and all of Python come through here, because the kernel itself asks. Mounting needs the superuser.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = 1
MOST_WRITTEN = 16 * 1024
"""The kernel divides longer writes, so that a part of one may be lost."""
MARK = ".mark-"
"""Looking for a name that begins so notes a moment in the record."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
_HEADER = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQ3IIIIIIII")
_MODE, _OWNER, _GROUP, _SIZE = 1, 2, 4, 8
_TEXT_TYPES = {stat.S_IFDIR: 4, stat.S_IFREG: 8, stat.S_IFLNK: 10}


@dataclass(frozen=True)
class Write:
    """Data of a file; `data` None: its length is set to `offset`."""

    node: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class Names:
    """What becomes of names of directories, at once: a node, or None for a name that is gone."""

    changes: tuple[tuple[int, str, int | None], ...]


@dataclass(frozen=True)
class Sync:
    """fsync(2) of a file or of a directory."""

    node: int


@dataclass(frozen=True)
class Mark:
    """The program has said that it has come so far."""

    name: str


Operation = Write | Names | Sync | Mark


@dataclass
class Node:
    """A file or a directory."""

    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[str, int] = field(default_factory=dict)


class Disk:
    """The filesystem. `record` has its operations in their order."""

    def __init__(self) -> None:
        self.nodes = {ROOT: Node(stat.S_IFDIR | 0o755)}
        self.record: list[Operation] = []
        self.unknown: set[int] = set()
        """Operation codes that were answered with ENOSYS."""
        self._next = ROOT + 1
        self._does: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._look_up, 3: self._attributes, 4: self._set, 8: self._make_node, 9: self._make_folder,
            10: self._remove, 11: self._remove, 12: self._rename, 13: self._link, 14: self._open, 15: self._read,
            16: self._write, 17: self._statistics, 18: self._nothing, 20: self._sync, 25: self._nothing,
            26: self._begin, 27: self._open, 28: self._list, 29: self._nothing, 30: self._sync, 35: self._create,
            45: self._rename2, 51: self._unnamed,
        }  # fmt: skip

    # -- answers

    def _entry(self, number: int) -> bytes:
        return struct.pack("<QQQQII", number, 1, 0, 0, 0, 0) + self._status(number)

    def _status(self, number: int) -> bytes:
        node = self.nodes[number]
        links = (
            2
            if stat.S_ISDIR(node.mode)
            else sum(each == number for folder in self.nodes.values() for each in folder.names.values())
        )
        size = len(node.data)
        return _ATTRIBUTES.pack(
            number, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, node.mode, links, os.getuid(), os.getgid(), 0, 4096, 0
        )

    def _new(self, mode: int) -> int:
        number, self._next = self._next, self._next + 1
        self.nodes[number] = Node(mode)
        return number

    def _child(self, folder: int, name: str) -> int:
        try:
            return self.nodes[folder].names[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, name) from None

    def _name(self, *changes: tuple[int, str, int | None]) -> None:
        for folder, name, number in changes:
            if number is None:
                del self.nodes[folder].names[name]
            else:
                self.nodes[folder].names[name] = number
        self.record.append(Names(changes))

    # -- operations

    def _begin(self, _: int, body: bytes) -> bytes:
        major, _minor, ahead, _flags = struct.unpack_from("<4I", body)
        return struct.pack("<4IHHIIHHII", major, 31, ahead, 1 << 5, 16, 12, MOST_WRITTEN, 1, 0, 0, 0, 0) + bytes(24)

    def _nothing(self, _number: int, _body: bytes) -> bytes:
        return b""

    def _look_up(self, number: int, body: bytes) -> bytes:
        name = body.rstrip(b"\0").decode()
        if name.startswith(MARK):
            self.record.append(Mark(name.removeprefix(MARK)))
        return self._entry(self._child(number, name))

    def _attributes(self, number: int, _: bytes) -> bytes:
        return bytes(16) + self._status(number)

    def _set(self, number: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        node = self.nodes[number]
        if valid & _SIZE:
            del node.data[size:]
            node.data.extend(bytes(size - len(node.data)))
            self.record.append(Write(number, size, None))
        if valid & _MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(struct.unpack_from("<I", body, 68)[0])
        return self._attributes(number, b"")

    def _make(self, folder: int, name: bytes, mode: int) -> int:
        text = name.rstrip(b"\0").decode()
        if text in self.nodes[folder].names:
            raise FileExistsError(errno.EEXIST, text)
        number = self._new(mode)
        self._name((folder, text, number))
        return number

    def _make_node(self, folder: int, body: bytes) -> bytes:
        return self._entry(self._make(folder, body[16:], struct.unpack_from("<I", body)[0]))

    def _make_folder(self, folder: int, body: bytes) -> bytes:
        return self._entry(self._make(folder, body[8:], stat.S_IFDIR | struct.unpack_from("<I", body)[0]))

    def _create(self, folder: int, body: bytes) -> bytes:
        mode = struct.unpack_from("<II", body)[1]
        return self._entry(self._make(folder, body[16:], stat.S_IFREG | mode)) + bytes(16)

    def _unnamed(self, _: int, body: bytes) -> bytes:
        return self._entry(self._new(stat.S_IFREG | struct.unpack_from("<II", body)[1])) + bytes(16)

    def _remove(self, folder: int, body: bytes) -> bytes:
        name = body.rstrip(b"\0").decode()
        if self.nodes[self._child(folder, name)].names:
            raise OSError(errno.ENOTEMPTY, name)
        self._name((folder, name, None))
        return b""

    def _rename(self, folder: int, body: bytes) -> bytes:
        return self._move(folder, struct.unpack_from("<Q", body)[0], body[8:])

    def _rename2(self, folder: int, body: bytes) -> bytes:
        target, flags = struct.unpack_from("<QI", body)
        if flags:
            raise OSError(errno.EINVAL, "flags of renameat2")
        return self._move(folder, target, body[16:])

    def _move(self, folder: int, target: int, names: bytes) -> bytes:
        old, new = (name.decode() for name in names.split(b"\0")[:2])
        self._name((target, new, self._child(folder, old)), (folder, old, None))
        return b""

    def _link(self, folder: int, body: bytes) -> bytes:
        (number,) = struct.unpack_from("<Q", body)
        name = body[8:].rstrip(b"\0").decode()
        if name in self.nodes[folder].names:
            raise FileExistsError(errno.EEXIST, name)
        self._name((folder, name, number))
        return self._entry(number)

    def _open(self, _number: int, _body: bytes) -> bytes:
        return bytes(16)

    def _read(self, number: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(self.nodes[number].data[offset : offset + size])

    def _write(self, number: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        data, written = body[40 : 40 + size], self.nodes[number].data
        written.extend(bytes(max(0, offset - len(written))))
        written[offset : offset + size] = data
        self.record.append(Write(number, offset, data))
        return struct.pack("<II", size, 0)

    def _sync(self, number: int, _: bytes) -> bytes:
        self.record.append(Sync(number))
        return b""

    def _list(self, number: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        found = b""
        for index, (name, child) in enumerate(list(self.nodes[number].names.items())[offset:], offset + 1):
            text = name.encode()
            kind = _TEXT_TYPES[stat.S_IFMT(self.nodes[child].mode)]
            entry = struct.pack("<QQII", child, index, len(text), kind) + text
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def _statistics(self, _number: int, _body: bytes) -> bytes:
        return struct.pack("<5Q4I", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0) + bytes(24)

    # -- the kernel

    def serve(self, device: int) -> None:
        """Answer until the filesystem is unmounted."""
        while True:
            try:
                asked = os.read(device, MOST_WRITTEN + (1 << 17))
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno in (errno.ENODEV, errno.ECONNABORTED):
                    return
                if error.errno == errno.ENOENT:
                    continue  # the request was interrupted
                raise
            _, code, unique, number, *_ = _HEADER.unpack_from(asked)
            if code in (2, 42, 36):
                continue  # forget, batch_forget, interrupt: they get no answer
            status, answer = 0, b""
            try:
                answer = self._does[code](number, asked[_HEADER.size :])
            except KeyError:
                self.unknown.add(code)
                status = -errno.ENOSYS
            except OSError as error:
                status = -(error.errno or errno.EIO)
            try:
                os.write(device, _ANSWER.pack(_ANSWER.size + len(answer), status, unique) + answer)
            except FileNotFoundError:
                continue  # nobody waits for it any more


def can_mount() -> bool:
    """Whether this process may mount a FUSE filesystem."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError:
        return False
    return os.geteuid() == 0


@contextmanager
def mounted(folder: Path) -> Iterator[Disk]:
    """An empty disk at this place."""
    disk = Disk()
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},default_permissions"
    try:
        if _LIBC.mount(b"disk", os.fsencode(folder), b"fuse", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        serving = threading.Thread(target=disk.serve, args=(device,))
        serving.start()
        try:
            yield disk
        finally:
            if _LIBC.umount2(os.fsencode(folder), _DETACH):
                raise OSError(ctypes.get_errno(), "umount")
            serving.join(10)
    finally:
        os.close(device)
