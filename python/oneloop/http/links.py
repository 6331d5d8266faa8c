"""`Links`: the symbolic links in directories that `--reload` watches, and the files that they lead to.

inotify reports the entries of a directory, not what a link in it leads to: a module that is linked from elsewhere, a
linked directory, or Kubernetes' `..data`, which is exchanged as a whole. These files are looked at now and then.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Links", "silent_mounts"]


class Sight(NamedTuple):
    """What is seen of a file behind a link."""

    link: tuple[int, str]
    """The link itself, if it has the name of a file: its inode, and what it names. inotify reports another one."""
    real_path: str
    stamp: tuple[int, int, int, int]
    """Device, inode, time of the last change and length: another file has another one."""


_NO_LINK = (0, "")

# Filesystems whose files are also changed elsewhere, of which this kernel knows nothing: mounts of the network, and of
# the host of a virtual machine (Docker Desktop, WSL, VirtualBox, VMware, Parallels).
_SILENT = frozenset(
    ("9p", "afs", "ceph", "cifs", "drvfs", "fakeowner", "fuse", "grpcfuse", "nfs", "nfs4", "osxfs", "prl_fs", "smb3")
) | {"vboxsf", "virtiofs", "vmhgfs"}


class Links:
    """The links that are below some directories.

    Args:
        folders: the directories, by their real names.
        roots: names of directories that may have links among their parts themselves.
        counts: whether a file's name matters.
    """

    def __init__(self, folders: Iterable[str], roots: Iterable[str], counts: Callable[[str], bool]) -> None:
        self._folders = list(folders)
        self._roots = [root for root in roots if os.path.realpath(root) != os.path.abspath(root)]  # noqa: PTH100
        self._counts = counts
        self._links: list[str] = []
        self._known: dict[str, dict[str, Sight]] = {}

    def find(self) -> bool:
        """Look for the links. Return whether there are any."""
        found = list(self._roots)
        for folder in self._folders:
            for root, folders, names in os.walk(folder):
                paths = [_join(root, name) for name in folders]
                paths += filter(self._counts, (_join(root, name) for name in names))
                found += filter(os.path.islink, paths)
                folders[:] = [name for name in folders if not name.startswith(".")]
        self._links = found
        return bool(found)

    def changes(self) -> list[str]:
        """Return the files behind known links that have changed since the last call, unless inotify reports them."""
        now = {link: dict(self._sights(link)) for link in self._links}
        before, self._known = self._known, now
        changed: dict[str, None] = {}
        for link in now.keys() & before.keys():
            old, new = before[link], now[link]
            changed |= dict.fromkeys(
                path for path in old.keys() | new.keys() if self._is_changed(old.get(path), new.get(path))
            )
        return list(changed)

    def _is_changed(self, old: Sight | None, new: Sight | None) -> bool:
        if old is None or new is None:
            return old is not new
        if old.link != new.link:
            return False
        # A change of a file whose own name does not matter is not passed on.
        is_reported = self._counts(new.real_path) and any(_is_in(new.real_path, folder) for folder in self._folders)
        return old.real_path != new.real_path or (old.stamp != new.stamp and not is_reported)

    def _sights(self, link: str) -> Iterator[tuple[str, Sight]]:
        seen: set[tuple[int, int]] = set()
        waiting = [(link, os.path.realpath(link))]
        while waiting:
            path, real = waiting.pop()
            try:
                status = os.stat(path)  # noqa: PTH116 - by name, many times
                if not stat.S_ISDIR(status.st_mode):
                    stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
                    yield path, Sight(_itself(path) if path == link else _NO_LINK, real, stamp)
                    continue
                # A directory below may lead back to one above.
                if (place := (status.st_dev, status.st_ino)) in seen:
                    continue
                seen.add(place)
                with os.scandir(path) as entries:
                    for entry in entries:
                        is_wanted = not entry.name.startswith(".") if _is_folder(entry) else self._counts(entry.path)
                        if is_wanted:
                            is_link = entry.is_symlink()
                            waiting.append(
                                (entry.path, os.path.realpath(entry.path) if is_link else _join(real, entry.name))
                            )
            except OSError:
                # It leads nowhere, or to what this process may not read: no file of the application.
                continue


def silent_mounts(folder: str, mounts: Iterable[str] | None = None) -> list[str]:
    """Return the directories, at or below this one, that are on filesystems which do not report all changes.

    Args:
        folder: by its real name.
        mounts: the lines of /proc/self/mountinfo.
    """
    if mounts is None:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    above, kind_above = "", ""
    found = []
    for line in mounts:
        fields, _, kind = line.partition(" - ")
        # proc(5): blanks and backslashes are in octal.
        place = fields.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        place = place.encode("latin-1").decode("utf-8", "surrogateescape")
        kind = kind.split(" ")[0]
        if _is_in(folder, place):
            # A later mount covers an earlier one.
            if len(place) >= len(above):
                above, kind_above = place, kind
        elif _is_in(place, folder) and _is_silent(kind):
            found.append(place)
    return [folder, *found] if _is_silent(kind_above) else found


def _itself(path: str) -> tuple[int, str]:
    try:
        return os.lstat(path).st_ino, os.readlink(path)  # noqa: PTH115 - by name, many times
    except OSError:
        # It has been replaced by a file.
        return _NO_LINK


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself, or to where this process may not look.
        return False


def _is_silent(kind: str) -> bool:
    return kind in _SILENT or kind.startswith("fuse.")


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
