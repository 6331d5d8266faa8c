"""`DirEntry`: what `scandir` gives for each name in a directory."""

from __future__ import annotations

import stat as modes
from typing import TYPE_CHECKING, AnyStr, Generic, final

from oneloop.files.metadata import status

if TYPE_CHECKING:
    import os

__all__ = ["DirEntry"]


@final
class DirEntry(Generic[AnyStr]):
    """A name in a directory, with what reading the directory has told of it.

    As `os.DirEntry`, whose questions it answers from the same reading: `is_symlink` and `inode` never
    ask the kernel. `is_dir`, `is_file` and `stat` are coroutines: the first two wait for symbolic
    links only, and what was asked once is remembered.
    """

    __slots__ = ("_dir_fd", "_entry", "_lstat", "_stat", "name", "path")

    def __init__(self, entry: os.DirEntry[AnyStr], dir_fd: int | None = None) -> None:
        self._entry: os.DirEntry[AnyStr] = entry
        self._dir_fd = dir_fd
        self._stat: os.stat_result | None = None
        self._lstat: os.stat_result | None = None
        self.name: AnyStr = entry.name
        self.path: AnyStr = entry.path

    def __fspath__(self) -> AnyStr:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        """The inode number that the directory gives."""
        return self._entry.inode()

    def is_symlink(self) -> bool:
        """True for a symbolic link, also a broken one."""
        return self._entry.is_symlink()

    def is_junction(self) -> bool:
        """False: Linux has none."""
        return False

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """True for a directory, or (followed) for a symbolic link to one."""
        if not self._entry.is_symlink():
            return self._entry.is_dir(follow_symlinks=False)
        return follow_symlinks and await self._leads_to(modes.S_IFDIR)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """True for a regular file, or (followed) for a symbolic link to one."""
        if not self._entry.is_symlink():
            return self._entry.is_file(follow_symlinks=False)
        return follow_symlinks and await self._leads_to(modes.S_IFREG)

    async def _leads_to(self, kind: int) -> bool:
        try:
            return modes.S_IFMT((await self.stat()).st_mode) == kind
        except FileNotFoundError:
            return False

    async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """The status of the file, or (not followed) of the symbolic link itself.

        Raises:
            OSError: with `filename`; ENOENT if the file has gone meanwhile.
        """
        if follow_symlinks and self._entry.is_symlink():
            if self._stat is None:
                self._stat = await status(self.path, self._dir_fd, True)
            return self._stat
        if self._lstat is None:
            self._lstat = await status(self.path, self._dir_fd, False)
        return self._lstat
