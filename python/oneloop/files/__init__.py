"""Files on the loop: no thread for what is cached, no blocked loop for what is not.

Functions have the names and arguments of os, os.path, shutil and glob, and `timeout` in seconds beside
them; they raise what those raise, with the same filenames, or TimeoutError. They need a running
oneloop loop.
"""

from __future__ import annotations

from oneloop.files.binary import BinaryFile
from oneloop.files.copying import copy, copy2, copyfile, copymode, copystat, copytree, move
from oneloop.files.direct import DirectAlignment, aligned_buffer, direct_alignment
from oneloop.files.engine import EngineInfo, engine_info, use_engine
from oneloop.files.entry import DirEntry
from oneloop.files.metadata import (
    access,
    chmod,
    chown,
    exists,
    fallocate,
    getatime,
    getctime,
    getmtime,
    getsize,
    getxattr,
    isdir,
    isfile,
    islink,
    ismount,
    lchown,
    lexists,
    listxattr,
    lstat,
    readlink,
    realpath,
    removexattr,
    samefile,
    setxattr,
    stat,
    statvfs,
    truncate,
    utime,
)
from oneloop.files.naming import (
    link,
    makedirs,
    mkdir,
    remove,
    removedirs,
    rename,
    renames,
    replace,
    rmdir,
    symlink,
    unlink,
)
from oneloop.files.opening import Opening, open  # noqa: A004 - the built-in's other half
from oneloop.files.path import Path
from oneloop.files.path_info import PathInfo
from oneloop.files.temporary import NamedTemporaryFile, SpooledTemporaryFile, TemporaryDirectory, TemporaryFile
from oneloop.files.text import TextFile
from oneloop.files.tree import ScandirIterator, glob, listdir, rmtree, scandir
from oneloop.files.unbuffered import UnbufferedFile
from oneloop.files.walking import walk
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
