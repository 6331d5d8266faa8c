"""`Mode`: what the mode argument of `open()` says."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Mode", "parse"]


class Mode(NamedTuple):
    """A valid mode, taken apart."""

    given: str
    is_reading: bool
    is_writing: bool
    is_appending: bool
    is_text: bool
    # For open(2), without O_CLOEXEC.
    flags: int
    # The mode that a binary file tells: rb, wb, ab, xb, rb+, ab+, xb+; wb+ from Python 3.15 on.
    of_bytes: str


_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


@lru_cache(maxsize=128)
def parse(mode: str) -> Mode | None:
    """Take a mode apart. None if `open()` would not have it."""
    letters = set(mode)
    verbs = letters & set(_FLAGS)
    if letters - set("axrwb+t") or len(mode) > len(letters) or len(verbs) != 1 or {"b", "t"} <= letters:
        return None
    verb = verbs.pop()
    is_updating = "+" in letters
    access = os.O_RDWR if is_updating else os.O_RDONLY if verb == "r" else os.O_WRONLY
    # Before Python 3.15 what was opened with "w+" does not tell that it was emptied.
    told = "r" if verb == "w" and is_updating and sys.version_info < (3, 15) else verb
    return Mode(
        given=mode,
        is_reading=verb == "r" or is_updating,
        is_writing=verb != "r" or is_updating,
        is_appending=verb == "a",
        is_text="b" not in letters,
        flags=access | _FLAGS[verb],
        of_bytes=told + ("b+" if is_updating else "b"),
    )
