"""What a native transport does in the place of asyncio's streams, in CPython's own words.

A stream transport feeds an `asyncio.StreamReader` without calling Python (`feeding.rs`), which is right only
while the running standard library does what stands here. So these functions are compared, as bytecode, with
those of `asyncio.streams`; if one differs (a new Python version, a patch), `known()` is None and every
transport calls `data_received()` as it calls any protocol's. Never run themselves; same from 3.11 to 3.15.
"""

from __future__ import annotations
import __future__

from asyncio import streams
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class Protocol:
    """Of `asyncio.StreamReaderProtocol`."""

    _stream_reader_wr: Any

    @property
    def _stream_reader(self) -> Any:
        if self._stream_reader_wr is None:
            return None
        return self._stream_reader_wr()

    def data_received(self, data: Any) -> None:
        reader = self._stream_reader
        if reader is not None:
            reader.feed_data(data)


class Reader:
    """Of `asyncio.StreamReader`."""

    _buffer: Any
    _eof: Any
    _limit: Any
    _paused: Any
    _transport: Any
    _waiter: Any

    def _wakeup_waiter(self) -> None:
        """Wakeup read*() functions waiting for data or EOF."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.cancelled():
                waiter.set_result(None)

    # The line breaks are the standard library's: they can show in the bytecode.
    # fmt: off
    def feed_data(self, data: Any) -> None:
        assert not self._eof, 'feed_data after feed_eof'

        if not data:
            return

        self._buffer.extend(data)
        self._wakeup_waiter()

        if (self._transport is not None and
                not self._paused and
                len(self._buffer) > 2 * self._limit):
            try:
                self._transport.pause_reading()
            except NotImplementedError:
                # The transport can't be paused.
                # We'll just have to buffer all data.
                # Forget the transport so we don't keep trying.
                self._transport = None
            else:
                self._paused = True
    # fmt: on


class Known(NamedTuple):
    """The classes that a transport feeds natively."""

    protocol: type
    reader: type


def known() -> Known | None:
    """The standard library's two classes; None if one of their functions is not its twin."""
    protocol, reader = vars(streams.StreamReaderProtocol), vars(streams.StreamReader)
    pairs = [
        (Protocol.__dict__["_stream_reader"].fget, getattr(protocol.get("_stream_reader"), "fget", None)),
        (Protocol.data_received, protocol.get("data_received")),
        (Reader.feed_data, reader.get("feed_data")),
        (Reader._wakeup_waiter, reader.get("_wakeup_waiter")),
    ]
    # The reader's attributes are read and written in its dictionary.
    special = {"__getattribute__", "__getattr__", "__setattr__", "__slots__", *Reader.__annotations__}
    plain = streams.StreamReader.__bases__ == (object,) and special.isdisjoint(reader)
    if not plain or not all(_is_twin(ours, theirs) for ours, theirs in pairs):
        return None
    return Known(streams.StreamReaderProtocol, streams.StreamReader)


def _is_twin(ours: Any, theirs: Any) -> bool:
    return (
        isinstance(theirs, FunctionType)
        and theirs.__globals__ is vars(streams)
        and not theirs.__closure__
        and _essence(theirs.__code__) == _essence(ours.__code__)
    )


def _essence(code: CodeType) -> CodeType:
    """The code without its place and its lines."""
    flags = code.co_flags & ~__future__.annotations.compiler_flag
    return code.replace(co_filename="", co_qualname="", co_firstlineno=1, co_linetable=b"", co_flags=flags)
