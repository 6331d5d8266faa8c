"""`Multipart`: forms with files (RFC 7578). Files are read while they are sent."""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Multipart"]

PIECE_BYTES = 64 * 1024
_ESCAPED = {'"': "%22", "\\": "\\\\", **{chr(code): f"%{code:02X}" for code in range(0x20) if code != 0x1B}}
_TO_ESCAPE = re.compile("|".join(re.escape(character) for character in _ESCAPED))


def _parameter(name: str, value: str) -> bytes:
    """One parameter of Content-Disposition, as browsers write it (WHATWG HTML, multipart form data)."""
    return f'{name}="{_TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], value)}"'.encode()


def read_up_to(file: Any, length_bytes: int) -> Iterator[bytes]:
    """Yield so much of a file, or less at its end."""
    while length_bytes > 0 and (data := file.read(min(PIECE_BYTES, length_bytes))):
        length_bytes -= len(data)
        yield data


class _Field:
    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Invalid type for name. Expected str, got {type(name)}: {name!r}")
        if value is not None and not isinstance(value, (str, bytes, int, float)):
            raise TypeError(f"Invalid type for value. Expected primitive type, got {type(value)}: {value!r}")
        self.head = b"Content-Disposition: form-data; " + _parameter("name", name) + b"\r\n\r\n"
        if isinstance(value, bool):
            value = "true" if value else "false"
        self._data = value if isinstance(value, bytes) else ("" if value is None else str(value)).encode()

    def length(self) -> int | None:
        return len(self._data)

    def parts(self) -> Iterator[bytes]:
        yield self._data


def _field(name: str, value: str) -> bytes:
    field = f"{name}: {value}"
    if any(end in field for end in "\r\n\0"):
        raise ValueError(f"a field of a part has a line end in it: {field!r}")
    return field.encode()


class _File:
    def __init__(self, name: str, given: Any) -> None:
        headers: dict[str, str] = {}
        content_type = None
        if isinstance(given, tuple):
            filename, self._file = given[0], given[1]
            if len(given) > 2:
                content_type = given[2]
            if len(given) > 3:
                headers = dict(given[3])
        else:
            filename, self._file = Path(str(getattr(given, "name", "upload"))).name, given
        if isinstance(self._file, str):
            self._file = self._file.encode()
        if not isinstance(self._file, bytes) and isinstance(self._file.read(0), str):
            raise TypeError("Multipart file uploads must be opened in binary mode, not text mode.")
        if not any(field.lower() == "content-type" for field in headers):
            guessed = content_type or (mimetypes.guess_type(filename)[0] if filename else None)
            if content_type is not None or filename:
                headers["Content-Type"] = guessed or "application/octet-stream"
        lines = [b"Content-Disposition: form-data; " + _parameter("name", name)]
        if filename:
            lines[0] += b"; " + _parameter("filename", filename)
        lines += [_field(field, value) for field, value in headers.items()]
        self.head = b"\r\n".join(lines) + b"\r\n\r\n"
        # What the request says of it. The file may grow meanwhile.
        self._length_bytes: int | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether it can be read again: a pipe cannot."""
        if isinstance(self._file, bytes):
            return True
        seekable = getattr(self._file, "seekable", None)
        return hasattr(self._file, "seek") and (seekable is None or seekable() is not False)

    def length(self) -> int | None:
        if isinstance(self._file, bytes):
            return len(self._file)
        try:
            here = self._file.tell()
            length = self._file.seek(0, 2)
            self._file.seek(here)
        except (AttributeError, OSError):
            return None
        self._length_bytes = int(length)
        return self._length_bytes

    def parts(self) -> Iterator[bytes]:
        if isinstance(self._file, bytes):
            yield self._file
            return
        if hasattr(self._file, "seek"):
            # A pipe cannot seek: it is read once.
            with suppress(OSError):
                self._file.seek(0)
        if self._length_bytes is not None:
            yield from read_up_to(self._file, self._length_bytes)
            return
        while data := self._file.read(PIECE_BYTES):
            yield data


class Multipart:
    """The parts of a form, to be iterated any number of times if `is_repeatable`.

    Args:
        data: fields: names and values, or lists of values.
        files: a mapping or pairs; a value is a file, its content, or a tuple (file name, file or content, content type,
            further fields of its part), the last two optional.
        boundary: None: a random one.

    Raises:
        TypeError: a value cannot be sent; a file is open in text mode.
    """

    def __init__(self, data: Mapping[str, Any], files: Any, boundary: bytes | None = None) -> None:
        self.boundary = boundary or os.urandom(16).hex().encode()
        self.content_type = f"multipart/form-data; boundary={self.boundary.decode()}"
        self._parts: list[_Field | _File] = []
        for name, value in data.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            self._parts += [_Field(name, single) for single in values]
        for name, given in files.items() if isinstance(files, Mapping) else files:
            self._parts.append(_File(name, given))

    @property
    def is_repeatable(self) -> bool:
        """Whether all its files can be read again."""
        return all(part.is_repeatable for part in self._parts if isinstance(part, _File))

    def length(self) -> int | None:
        """Return the length of the whole body in bytes; None if a file cannot tell its own."""
        total = len(self.boundary) + 6
        for part in self._parts:
            length = part.length()
            if length is None:
                return None
            total += len(self.boundary) + 4 + len(part.head) + length + 2
        return total

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            yield b"--%s\r\n%s" % (self.boundary, part.head)
            yield from part.parts()
            yield b"\r\n"
        yield b"--%s--\r\n" % self.boundary
