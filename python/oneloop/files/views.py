"""Buffers as bytes: what programs hand to files to be written from, or read into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["advance", "first", "readable", "told", "writable"]


def readable(buffer: ReadableBuffer) -> memoryview:
    """See a bytes-like object as bytes.

    Raises:
        TypeError: it is none.
        BufferError: its bytes do not lie one after the other.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(f"a bytes-like object is required, not '{type(buffer).__name__}'") from None
    return _as_bytes(view)


def writable(buffer: WriteableBuffer) -> memoryview:
    """See a writable buffer as bytes; otherwise like `readable`."""
    try:
        view = memoryview(buffer)
    except TypeError:
        view = memoryview(b"")
    if view.readonly:
        raise TypeError(f"readinto() argument must be read-write bytes-like object, not {told(buffer)}")
    return _as_bytes(view)


def told(wrong: object) -> str:
    """How io's errors call an argument: by its class, or None."""
    return "None" if wrong is None else type(wrong).__name__


def _as_bytes(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def advance(views: list[memoryview], count: int) -> None:
    """Drop the first `count` bytes."""
    while views and count >= len(views[0]):
        count -= len(views.pop(0))
    if count:
        views[0] = views[0][count:]


def first(views: list[memoryview], count: int) -> list[memoryview]:
    """The first `count` bytes."""
    found = []
    for view in views:
        if count <= 0:
            break
        found.append(view[:count])
        count -= len(view)
    return found
