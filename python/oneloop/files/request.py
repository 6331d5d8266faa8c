"""The arguments of `open()`: their check, and the request that they make."""

from __future__ import annotations

import builtins
import io
import os
import sys
import warnings
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from oneloop.files.coding import Style, style_of

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["Mode", "Request", "name_of", "parse", "request"]

LARGEST_NUMBER = 2**31 - 1


def request(
    name: str | bytes | int,
    mode: str,
    buffering: int,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout_s: float | None = None,
) -> Request:
    """Check the arguments of `open()` or of a function based on it.

    Raises:
        TypeError, ValueError, LookupError: as the built-in.
    """
    parsed = parse(mode) if type(mode) is str and isinstance(buffering, int) else None
    checked: Style | None = None
    if parsed is None:
        raise _refusal(mode, buffering, encoding, errors, newline)
    if parsed.is_text:
        if buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        for part in (encoding, errors, newline):
            if part is not None and not isinstance(part, str):
                raise _refusal(mode, buffering, encoding, errors, newline)
        checked = style_of(io.text_encoding(encoding, 3), errors, newline)
    elif encoding is not None or errors is not None or newline is not None:
        raise _refusal(mode, buffering, encoding, errors, newline)
    elif buffering == 1:
        warnings.warn(
            "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used",
            RuntimeWarning,
            stacklevel=3,
        )
        buffering = -1
    if direct:
        _check_direct(parsed, buffering)
        buffering = 0
    if not isinstance(name, int) and not closefd:
        raise ValueError("Cannot use closefd=False with file name")
    # Without the call of a Python function that the class of a NamedTuple is.
    return tuple.__new__(Request, (name, parsed, buffering, checked, closefd, opener, dir_fd, direct, timeout_s))


def _check_direct(mode: Mode, buffering: int) -> None:
    if mode.is_text or buffering > 0:
        raise ValueError(
            f"direct=True needs a binary mode and no buffering, not mode={mode.given!r}, buffering={buffering}"
        )


class Mode(NamedTuple):
    """A parsed, valid mode."""

    given: str
    is_reading: bool
    is_writing: bool
    is_appending: bool
    is_text: bool
    # For open(2).
    flags: int
    # The `mode` attribute of a binary file: rb, wb, ab, xb, rb+, ab+, xb+; wb+ from Python 3.15 on.
    of_bytes: str


_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


@lru_cache(maxsize=128)
def parse(mode: str) -> Mode | None:
    """Parse a mode. Return None if `open()` does not accept it."""
    letters = set(mode)
    verbs = letters & set(_FLAGS)
    if letters - set("axrwb+t") or len(mode) > len(letters) or len(verbs) != 1 or {"b", "t"} <= letters:
        return None
    verb = verbs.pop()
    is_updating = "+" in letters
    access = os.O_RDWR if is_updating else os.O_RDONLY if verb == "r" else os.O_WRONLY
    # Before Python 3.15, a file opened with "w+" has the mode "rb+".
    told = "r" if verb == "w" and is_updating and sys.version_info < (3, 15) else verb
    return Mode(
        given=mode,
        is_reading=verb == "r" or is_updating,
        is_writing=verb != "r" or is_updating,
        is_appending=verb == "a",
        is_text="b" not in letters,
        flags=access | _FLAGS[verb] | os.O_CLOEXEC,
        of_bytes=told + ("b+" if is_updating else "b"),
    )


class Request(NamedTuple):
    """The checked arguments of `open`."""

    name: str | bytes | int
    mode: Mode
    buffering: int
    style: Style | None
    closefd: bool
    opener: Callable[[str, int], int] | None
    dir_fd: int | None
    is_direct: bool
    timeout_s: float | None


def _refusal(*arguments: Any) -> Exception:
    """Return the exception that the built-in `open()` raises for these arguments in this Python version."""
    mode = arguments[0]
    try:
        builtins.open(os.devnull, *arguments).close()
    except (TypeError, ValueError) as exc:
        return exc.with_traceback(None)
    return ValueError(f"invalid mode: {mode!r}")


def name_of(file: object) -> str | bytes | int:
    """Return a path as str or bytes, or a descriptor as int."""
    if type(file) is not str and not isinstance(file, bytes | str) and isinstance(file, SupportsIndex):
        number = index(file)
        if isinstance(file, bool) and sys.version_info >= (3, 13):
            warnings.warn("bool is used as a file descriptor", RuntimeWarning, stacklevel=3)
        if number < 0:
            raise ValueError("negative file descriptor")
        if number > LARGEST_NUMBER:
            raise TypeError("expected str, bytes or os.PathLike object, not int")
        return number
    if type(file) is str and "\0" not in file:
        return file
    name = os.fspath(file)  # type: ignore[call-overload]
    if b"\0" in os.fsencode(name):
        raise ValueError("embedded null byte")
    assert isinstance(name, str | bytes)
    return name
