"""Bodies of requests: bytes, text, forms, JSON, multipart, iterators.

A body is either bytes, or a `Stream` of parts with or without a known length.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from io import TextIOBase
from typing import Any
from urllib.parse import urlencode

from oneloop.http.client.errors import StreamConsumed
from oneloop.http.client.multipart import Multipart, read_up_to

__all__ = ["Stream", "encode_body"]

PIECE_BYTES = 64 * 1024


class Stream:
    """A body that is sent part by part.

    Args:
        parts: an iterable or asynchronous iterable of bytes, or a file.
        length_bytes: how much of a file is sent, which may grow meanwhile; None: all of it.
    """

    def __init__(self, parts: Any, length_bytes: int | None = None) -> None:
        self._parts = parts
        self._length_bytes = length_bytes
        self._is_used = False
        # A generator can be read once; a file and a list again.
        self._start = _position_of(parts)
        if isinstance(parts, Multipart):
            self.is_repeatable = parts.is_repeatable
        else:
            is_once = isinstance(parts, (Iterator, AsyncIterator)) or _reads_as_coroutine(parts)
            self.is_repeatable = not is_once or self._start is not None

    @property
    def is_async(self) -> bool:
        """Whether only a coroutine can read it."""
        return isinstance(self._parts, AsyncIterable) and not isinstance(self._parts, Iterable)

    def reader(self, *, in_coroutine: bool) -> Callable[[], Awaitable[bytes] | bytes]:
        """Return a function that returns the next part, or an awaitable of it; b"" at the end.

        Raises:
            StreamConsumed: it can be read only once, and was.
            RuntimeError: only a coroutine can read it, and the caller is none.
        """
        if self.is_async and not in_coroutine:
            raise RuntimeError("Attempted to send an async request with a sync Client instance.")
        if self._is_used and not self.is_repeatable:
            raise StreamConsumed
        self._is_used = True
        parts = self._parts
        if hasattr(parts, "read"):
            if self._start is not None:
                parts.seek(self._start)
            if self._length_bytes is None:
                return lambda: parts.read(PIECE_BYTES)
            pieces_of_file = read_up_to(parts, self._length_bytes)
            return lambda: next(pieces_of_file, b"")
        if self.is_async:
            pieces = aiter(parts)
            return lambda: _next_async(pieces)
        source = iter(parts)
        return lambda: _next_part(source)

    async def finish(self) -> None:
        """End a generator that was not read to its end."""
        if isinstance(self._parts, AsyncGenerator):
            await self._parts.aclose()
        elif isinstance(self._parts, Generator):
            self._parts.close()


def _reads_as_coroutine(parts: Any) -> bool:
    """Whether it is a file as those of `oneloop.files`."""
    return hasattr(parts, "read") and isinstance(parts, AsyncIterable) and not isinstance(parts, Iterable)


def _position_of(parts: Any) -> int | None:
    """Where a file is read from; None for what is no file, and for what can be read once: a pipe, an awaited file."""
    if _reads_as_coroutine(parts):
        return None
    seekable = getattr(parts, "seekable", None)
    if not hasattr(parts, "seek") or (seekable is not None and seekable() is False):
        return None
    here: int = parts.tell()
    return here


async def _next_async(pieces: AsyncIterator[Any]) -> bytes:
    async for piece in pieces:
        if piece:
            return piece.encode() if isinstance(piece, str) else piece
    return b""


def _next_part(source: Iterator[Any]) -> bytes:
    for piece in source:
        if piece:
            return piece.encode() if isinstance(piece, str) else piece
    return b""


def _length_of(file: Any) -> int | None:
    """Return the bytes that are left in a file, if that can be told."""
    try:
        here = file.tell()
        length = file.seek(0, 2) - here
        file.seek(here)
    except (AttributeError, OSError):
        return None
    return int(length)


def encode_body(
    content: Any = None, data: Any = None, files: Any = None, json: Any = None, boundary: bytes | None = None
) -> tuple[dict[str, str], bytes | Stream]:
    """Return the fields that describe a body, and the body.

    Args:
        content: bytes, text, a file, or an iterable or asynchronous iterable of bytes.
        data: a form, as a mapping; values can be lists. With `files`, its fields come before them.
        files: files of a multipart form; see `Multipart`.
        json: what `json.dumps` can encode.
        boundary: of a multipart form.

    Raises:
        TypeError: it is none of those.
    """
    if content is not None:
        return _encode_content(content)
    if files:
        multipart = Multipart(data or {}, files, boundary)
        headers = {"Content-Type": multipart.content_type}
        length = multipart.length()
        if length is None:
            return {**headers, "Transfer-Encoding": "chunked"}, Stream(multipart)
        return {**headers, "Content-Length": str(length)}, Stream(multipart)
    if data:
        if not isinstance(data, Mapping):
            if isinstance(data, (list, tuple)) and not all(isinstance(part, (bytes, bytearray)) for part in data):
                raise TypeError("a form is a mapping, whose values may be lists: data={'name': ['one', 'two']}")
            return _encode_content(data)
        pairs = [
            (name, _form_value(single))
            for name, value in data.items()
            for single in (value if isinstance(value, (list, tuple)) else [value])
        ]
        body = urlencode(pairs).encode("ascii")
        return {"Content-Length": str(len(body)), "Content-Type": "application/x-www-form-urlencoded"}, body
    if json is not None:
        text = jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        body = text.encode("utf-8")
        return {"Content-Length": str(len(body)), "Content-Type": "application/json"}, body
    return {}, b""


def _form_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode() if isinstance(value, bytes) else str(value)


def _encode_content(content: Any) -> tuple[dict[str, str], bytes | Stream]:
    if isinstance(content, (bytes, str, bytearray, memoryview)):
        body = content.encode("utf-8") if isinstance(content, str) else bytes(content)
        return ({"Content-Length": str(len(body))} if body else {}), body
    if isinstance(content, (Iterable, AsyncIterable)) and not isinstance(content, Mapping):
        if isinstance(content, TextIOBase):
            raise TypeError("A file as 'content' must be opened in binary mode, not text mode.")
        is_file = hasattr(content, "read") and not _reads_as_coroutine(content)
        length = _length_of(content) if is_file else None
        if length is not None:
            return {"Content-Length": str(length)}, Stream(content, length)
        return {"Transfer-Encoding": "chunked"}, Stream(content)
    raise TypeError(f"Unexpected type for 'content', {type(content)!r}")
