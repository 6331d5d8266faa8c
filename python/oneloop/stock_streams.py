"""Whether the running standard library's streams are those that `feeding.rs` was written after.

A stream transport feeds an `asyncio.StreamReader` without calling Python, which is right only while four
functions of `asyncio.streams` do what it does in their place. Their source is known by its digest, the same from
CPython 3.11 to 3.15. If it is another (a new version, a patch), or not there to be read, `known()` is None and every
transport calls `data_received()` as it calls any protocol's.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from asyncio import streams
from types import FunctionType
from typing import Any, NamedTuple

DIGEST = "d84a28e72508085b3e0fe46639cb9d17bce99ccc659567ada27f052cd241777e"

# What `feeding.rs` reads and writes as plain attributes, and what would make them something else.
SPECIAL = frozenset({"_buffer", "_eof", "_limit", "_paused", "_transport", "_waiter"}) | {
    "__getattribute__",
    "__getattr__",
    "__setattr__",
    "__slots__",
}


class Known(NamedTuple):
    """The classes that a transport feeds natively."""

    protocol: type
    reader: type


def known() -> Known | None:
    """The standard library's two classes; None if one of their functions is another."""
    protocol, reader = vars(streams.StreamReaderProtocol), vars(streams.StreamReader)
    functions = (
        getattr(protocol.get("_stream_reader"), "fget", None),
        protocol.get("data_received"),
        reader.get("feed_data"),
        reader.get("_wakeup_waiter"),
    )
    if streams.StreamReader.__bases__ != (object,) or not SPECIAL.isdisjoint(reader):
        return None
    if digest_of(functions) != DIGEST:
        return None
    return Known(streams.StreamReaderProtocol, streams.StreamReader)


@functools.cache
def digest_of(functions: tuple[Any, ...]) -> str | None:
    """Of the source of functions that are `asyncio.streams`' own; None if one is not, or has none."""
    digest = hashlib.sha256()
    for function in functions:
        is_own = isinstance(function, FunctionType) and function.__globals__ is vars(streams)
        if not is_own or function.__closure__ or function.__code__.co_filename != streams.__file__:
            return None
        try:
            digest.update(inspect.getsource(function).encode())
        except OSError:
            return None
    return digest.hexdigest()


# Reads a file, which no loop should wait for: done when the loop's module is imported.
known()
