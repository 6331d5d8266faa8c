"""Protocols with buffers of their own."""

from __future__ import annotations

from tests.protocols import BufferedRecorder


class ViewRecorder(BufferedRecorder):
    """Its buffer is a view: what `asyncio.sslproto` cuts off of a `bytearray` is a copy."""

    def __init__(self, size: int = 65536) -> None:
        super().__init__(size)
        self.buffer = memoryview(self.buffer)  # type: ignore[assignment]
