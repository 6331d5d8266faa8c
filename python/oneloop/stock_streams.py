"""Check that the standard library's streams are the ones that `feeding.rs` replaces.

A stream transport feeds an `asyncio.StreamReader` without calling Python. That is correct only if four functions of
`asyncio.streams` do exactly what `feeding.rs` does instead. Their source code is compared by a digest, which is the
same from CPython 3.11 to 3.15. If the digest differs (a new version, a monkey patch) or the source cannot be read,
`known()` returns None, and every transport calls `data_received()` as for any other protocol.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from asyncio import streams
from types import FunctionType
from typing import Any, NamedTuple

DIGEST = "d84a28e72508085b3e0fe46639cb9d17bce99ccc659567ada27f052cd241777e"

# `feeding.rs` reads and writes the first six as plain instance attributes. If the class defines one of these names,
# that is not safe.
SPECIAL = frozenset({"_buffer", "_eof", "_limit", "_paused", "_transport", "_waiter"}) | {
    "__getattribute__",
    "__getattr__",
    "__setattr__",
    "__slots__",
}


class Known(NamedTuple):
    """The two classes that a transport feeds natively."""

    protocol: type
    reader: type


def known() -> Known | None:
    """Return the standard library's two classes; None if one of their functions differs."""
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
    """Return the digest of the functions' source; None if one is not defined in `asyncio.streams` or has no source."""
    digest = hashlib.sha256()
    for function in functions:
        is_own = isinstance(function, FunctionType)
        is_own = is_own and function.__globals__ is vars(streams)  # pyright: ignore[reportUnnecessaryComparison]
        if not is_own or function.__closure__ or function.__code__.co_filename != streams.__file__:
            return None
        try:
            digest.update(inspect.getsource(function).encode())
        except OSError:
            return None
    return digest.hexdigest()


# This reads a file, which would block a running loop, so do it at import.
known()
