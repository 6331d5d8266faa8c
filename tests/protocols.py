"""Protocols that record what they are told, and wait for it: what the transport tests speak with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

P = TypeVar("P")


class Recorder(asyncio.Protocol):
    """Records every call; `wait_received`, `wait_eof` and `wait_lost` wait for events."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.calls: list[str] = []
        self.error: BaseException | None = None
        self.keeps_open_at_eof = False
        self._changed = asyncio.Event()

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert self.transport is None
        self.transport = transport
        self._note("connection_made")

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        assert data
        self.received += data
        self._note("data_received")

    def eof_received(self) -> bool:
        self._note("eof_received")
        return self.keeps_open_at_eof

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("connection_lost")

    def pause_writing(self) -> None:
        self._note("pause_writing")

    def resume_writing(self) -> None:
        self._note("resume_writing")

    async def _wait(self, is_reached: Any) -> None:
        while not is_reached():
            self._changed.clear()
            await self._changed.wait()

    async def wait_made(self) -> None:
        await self._wait(lambda: self.transport is not None)

    async def wait_received(self, count: int) -> bytes:
        """Wait until at least `count` bytes came in all; returns everything so far."""
        await self._wait(lambda: len(self.received) >= count or "connection_lost" in self.calls)
        return bytes(self.received)

    async def wait_call(self, call: str) -> None:
        await self._wait(lambda: call in self.calls)

    async def wait_lost(self) -> BaseException | None:
        await self.wait_call("connection_lost")
        return self.error


class BufferedRecorder(Recorder, asyncio.BufferedProtocol):
    """The same through get_buffer and buffer_updated."""

    def __init__(self, size: int = 65536) -> None:
        super().__init__()
        self.buffer = bytearray(size)
        self.hints: list[int] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        self.hints.append(sizehint)
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert 0 < nbytes <= len(self.buffer)
        self.received += self.buffer[:nbytes]
        self._note("data_received")


def keeping(made: list[P], kind: Callable[[], P]) -> Callable[[], Any]:
    """A factory of protocols; `made` are those that it has made."""

    def factory() -> P:
        made.append(kind())
        return made[-1]

    return factory


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


# CPython derives the kind of a protocol from BufferedProtocol; a class that is both must be taken for that.
assert issubclass(BufferedRecorder, asyncio.BufferedProtocol)
