"""`PathInfo`: what `Path.info` remembers of a file."""

from __future__ import annotations

import stat as modes
from typing import TYPE_CHECKING, final

from oneloop.files import metadata

if TYPE_CHECKING:
    import os

__all__ = ["PathInfo"]


@final
class PathInfo:
    """The type of a file, asked once and then remembered; as `pathlib.types.PathInfo`, with coroutines."""

    __slots__ = ("_modes", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        # By `follow_symlinks`; None for what does not exist or cannot be looked up.
        self._modes: dict[bool, int | None] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._path!r}>"

    async def _mode(self, follow_symlinks: bool) -> int | None:
        if follow_symlinks not in self._modes:
            status: os.stat_result | None
            try:
                status = await metadata.status(self._path, None, follow_symlinks)
            except (OSError, ValueError):
                status = None
            self._modes[follow_symlinks] = None if status is None else status.st_mode
        return self._modes[follow_symlinks]

    async def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the path leads to a file."""
        return await self._mode(follow_symlinks) is not None

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISDIR(mode)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISREG(mode)

    async def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        mode = await self._mode(False)
        return mode is not None and modes.S_ISLNK(mode)
