"""Memoryviews of the buffers that programs pass to files to write from or read into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["advance", "first", "readable", "told", "writable"]


def readable(buffer: ReadableBuffer) -> memoryview:
    """Return a memoryview of the bytes of a bytes-like object.

    Raises:
        TypeError: it is not bytes-like.
        BufferError: its memory is not contiguous.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(f"a bytes-like object is required, not '{type(buffer).__name__}'") from None
    return _as_bytes(view)


def writable(buffer: WriteableBuffer) -> memoryview:
    """Like `readable`, for a writable buffer; TypeError if it is read-only."""
    try:
        view = memoryview(buffer)
    except TypeError:
        view = memoryview(b"")
    if view.readonly:
        raise TypeError(f"readinto() argument must be read-write bytes-like object, not {told(buffer)}")
    return _as_bytes(view)


def told(wrong: object) -> str:
    """Return the name of an argument in io's error messages: its class, or "None"."""
    return "None" if wrong is None else type(wrong).__name__


def _as_bytes(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def advance(views: list[memoryview], count: int) -> None:
    """Remove the first `count` bytes from the views, in place."""
    while views and count >= len(views[0]):
        count -= len(views.pop(0))
    if count:
        views[0] = views[0][count:]


def first(views: list[memoryview], count: int) -> list[memoryview]:
    """Return views of the first `count` bytes."""
    found = []
    for view in views:
        if count <= 0:
            break
        found.append(view[:count])
        count -= len(view)
    return found
