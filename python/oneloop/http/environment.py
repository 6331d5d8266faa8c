"""Environment files: `KEY=VALUE` lines in the format of python-dotenv and shells, without expansion of variables.

A value in single quotes is used literally. In double quotes, a backslash is an escape character. An unquoted value ends
before a `#` that follows a space. A quoted value can have several lines. Variables that are set already do not change.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["EnvironmentFileError", "load", "parse"]

_KEY = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.]*)[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN = re.compile(r"[^\n]*")
_COMMENT = re.compile(r"(?:^|[ \t]+)#.*")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_EMPTY = re.compile(r"[ \t]*(?:#[^\n]*)?\n")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "'": "'"}


class EnvironmentFileError(ValueError):
    """A line of an environment file is wrong."""


def load(path: str | os.PathLike[str], again: Collection[str] = ()) -> list[str]:
    """Set the variables of a file that are not set yet. Return their names.

    Args:
        path: the file.
        again: names that an earlier call has set; they are updated, or removed if the file no longer has them.

    Raises:
        OSError: the file cannot be read.
        EnvironmentFileError: a line is wrong; no variable was set.
    """
    values = parse(Path(path).read_text(encoding="utf-8-sig"))
    for key in again:
        os.environ.pop(key, None)
    added = [key for key in values if key not in os.environ]
    for key in added:
        os.environ[key] = values[key]
    return added


def parse(text: str) -> dict[str, str]:
    """Parse the text of an environment file.

    Raises:
        EnvironmentFileError: a line is wrong.
    """
    text = text.replace("\r\n", "\n")
    if not text.endswith("\n"):
        text += "\n"
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        empty = _EMPTY.match(text, position)
        if empty:
            position = empty.end()
            continue
        key = _KEY.match(text, position)
        if key is None or not text.startswith("=", key.end()):
            line = text.count("\n", 0, position) + 1
            raise EnvironmentFileError(f"line {line} is not KEY=VALUE")
        values[key.group(1)], position = _value(text, key.end() + 1)
        if "\0" in values[key.group(1)]:
            raise EnvironmentFileError(f"the value of {key.group(1)} contains a NUL character")
    return values


def _value(text: str, position: int) -> tuple[str, int]:
    """Return the value that begins at `position`, and the position of the next line."""
    while text[position] in " \t":
        position += 1
    quote = text[position]
    if quote in "'\"":
        found = (_SINGLE if quote == "'" else _DOUBLE).match(text, position)
        rest = found and _REST.match(text, found.end())
        if not found or not rest:
            line = text.count("\n", 0, position) + 1
            raise EnvironmentFileError(f"line {line} has no closing quote, or text after the closing quote")
        value = found.group(1)
        if quote == '"':
            value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), value)
        return value, rest.end()
    found = _PLAIN.match(text, position)
    assert found is not None
    return _COMMENT.sub("", found.group()).strip(), found.end() + 1
