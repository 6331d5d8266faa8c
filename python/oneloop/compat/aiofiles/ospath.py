"""`aiofiles.ospath`: functions of os.path as coroutines."""

from __future__ import annotations

from os import path

from oneloop import files
from oneloop.compat.aiofiles.base import present, wrap

__all__ = [
    "abspath",
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "samefile",
    "sameopenfile",
]

abspath = wrap(path.abspath)
exists = present(files.exists, path.exists)
getatime = present(files.getatime, path.getatime)
getctime = present(files.getctime, path.getctime)
getmtime = present(files.getmtime, path.getmtime)
getsize = present(files.getsize, path.getsize)
isdir = present(files.isdir, path.isdir)
isfile = present(files.isfile, path.isfile)
islink = present(files.islink, path.islink)
ismount = present(files.ismount, path.ismount)
samefile = present(files.samefile, path.samefile)
sameopenfile = wrap(path.sameopenfile)
