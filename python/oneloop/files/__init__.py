"""File I/O for coroutines: cached data is read without a thread, and uncached data never blocks the loop.

The functions have the names and arguments of os, os.path, shutil and glob, plus `timeout` in seconds. They
raise the same exceptions with the same filenames, or TimeoutError. They need a running oneloop loop.
"""

from __future__ import annotations

from oneloop.files.attributes import (
    access,
    chmod,
    chown,
    fallocate,
    getxattr,
    lchown,
    listxattr,
    removexattr,
    setxattr,
    statvfs,
    truncate,
    utime,
)
from oneloop.files.binary import BinaryFile
from oneloop.files.copying import copy, copy2, copyfile, copymode, copystat, copytree, move
from oneloop.files.direct import DirectAlignment, aligned_buffer, direct_alignment
from oneloop.files.engine import EngineInfo, engine_info, use_engine
from oneloop.files.names import (
    exists,
    getatime,
    getctime,
    getmtime,
    getsize,
    isdir,
    isfile,
    islink,
    ismount,
    lexists,
    link,
    lstat,
    makedirs,
    mkdir,
    readlink,
    realpath,
    remove,
    removedirs,
    rename,
    renames,
    replace,
    rmdir,
    samefile,
    stat,
    symlink,
    unlink,
)
from oneloop.files.opening import Opening, open  # noqa: A004 - has the interface of the built-in
from oneloop.files.path import Path, PathInfo
from oneloop.files.removal import rmtree
from oneloop.files.spooled import SpooledTemporaryFile
from oneloop.files.temporary import NamedTemporaryFile, TemporaryDirectory, TemporaryFile
from oneloop.files.text import TextFile
from oneloop.files.trees import DirEntry, ScandirIterator, glob, listdir, scandir, walk
from oneloop.files.unbuffered import UnbufferedFile
from oneloop.files.watching import Change, Event, Watch, watch
from oneloop.files.whole import read_file, read_text, write_file, write_text

__all__ = [
    "BinaryFile",
    "Change",
    "DirEntry",
    "DirectAlignment",
    "EngineInfo",
    "Event",
    "NamedTemporaryFile",
    "Opening",
    "Path",
    "PathInfo",
    "ScandirIterator",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
    "TemporaryFile",
    "TextFile",
    "UnbufferedFile",
    "Watch",
    "access",
    "aligned_buffer",
    "chmod",
    "chown",
    "copy",
    "copy2",
    "copyfile",
    "copymode",
    "copystat",
    "copytree",
    "direct_alignment",
    "engine_info",
    "exists",
    "fallocate",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "getxattr",
    "glob",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "lchown",
    "lexists",
    "link",
    "listdir",
    "listxattr",
    "lstat",
    "makedirs",
    "mkdir",
    "move",
    "open",
    "read_file",
    "read_text",
    "readlink",
    "realpath",
    "remove",
    "removedirs",
    "removexattr",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "rmtree",
    "samefile",
    "scandir",
    "setxattr",
    "stat",
    "statvfs",
    "symlink",
    "truncate",
    "unlink",
    "use_engine",
    "utime",
    "walk",
    "watch",
    "write_file",
    "write_text",
]
