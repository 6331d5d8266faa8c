"""`aiofiles.os`: functions of os as coroutines."""

from __future__ import annotations

import os

from oneloop import files
from oneloop.compat.aiofiles import ospath as path
from oneloop.compat.aiofiles.base import present, wrap

__all__ = [
    "access",
    "getcwd",
    "link",
    "listdir",
    "makedirs",
    "mkdir",
    "path",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "stat",
    "statvfs",
    "symlink",
    "unlink",
    "wrap",
]

access = present(files.access, os.access)
getcwd = wrap(os.getcwd)
link = present(files.link, os.link)
listdir = present(files.listdir, os.listdir)
makedirs = present(files.makedirs, os.makedirs)
mkdir = present(files.mkdir, os.mkdir)
readlink = present(files.readlink, os.readlink)
remove = present(files.remove, os.remove)
removedirs = present(files.removedirs, os.removedirs)
rename = present(files.rename, os.rename)
renames = present(files.renames, os.renames)
replace = present(files.replace, os.replace)
rmdir = present(files.rmdir, os.rmdir)
# aiofiles returns os's own iterator.
scandir = wrap(os.scandir)
sendfile = wrap(os.sendfile)
stat = present(files.stat, os.stat)
statvfs = present(files.statvfs, os.statvfs)
symlink = present(files.symlink, os.symlink)
unlink = present(files.unlink, os.unlink)
