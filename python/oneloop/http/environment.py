"""Environment files: `KEY=VALUE` lines, as python-dotenv and shells read them, without expansion.

A value in single quotes is taken as it is. In double quotes, backslashes escape. Without quotes it ends before a `#`
that follows a space. A quoted value may go over several lines. Variables that are set already stay as they are.
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
    """Set the variables of a file that are not set yet; returns their names.

    Args:
        path: the file.
        again: names that an earlier call has set; they get their new values, or go.

    Raises:
        OSError: the file cannot be read.
        EnvironmentFileError: a line is wrong; nothing is set.
    """
    values = parse(Path(path).read_text(encoding="utf-8-sig"))
    for key in again:
        os.environ.pop(key, None)
    added = [key for key in values if key not in os.environ]
    for key in added:
        os.environ[key] = values[key]
    return added


def parse(text: str) -> dict[str, str]:
    """Read the text of an environment file.

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
            raise EnvironmentFileError(f"the value of {key.group(1)} has a zero byte")
    return values


def _value(text: str, position: int) -> tuple[str, int]:
    """The value that begins there, and where the next line begins."""
    while text[position] in " \t":
        position += 1
    quote = text[position]
    if quote in "'\"":
        found = (_SINGLE if quote == "'" else _DOUBLE).match(text, position)
        rest = found and _REST.match(text, found.end())
        if not found or not rest:
            line = text.count("\n", 0, position) + 1
            raise EnvironmentFileError(f"line {line} has a quote that does not end, or text behind it")
        value = found.group(1)
        if quote == '"':
            value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), value)
        return value, rest.end()
    found = _PLAIN.match(text, position)
    assert found is not None
    return _COMMENT.sub("", found.group()).strip(), found.end() + 1
