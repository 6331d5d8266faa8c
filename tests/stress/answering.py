"""The server of `tests.stress.requests`, in a process of its own: it prints its port and answers until its input ends.

Paths: `/small`, `/large`, `/chunked`, `/gzip`; `/close` ends the connection after its answer, `/drop` closes it without
a word although the answer said nothing of that, `/gone` ends it without an answer, `/stall` never answers, `/half`
stalls within the body. A body is read before the answer.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys

import oneloop

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
SMALL = b'{"hello":"world"}'
LARGE = bytes(range(256)) * 1024


def _answer(body: bytes, *fields: str) -> bytes:
    lines = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


ANSWERS = {
    b"/small": _answer(SMALL),
    b"/large": _answer(LARGE),
    b"/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n" + SMALL + b"\r\n0\r\n\r\n",
    b"/gzip": _answer(gzip.compress(SMALL), "Content-Encoding: gzip"),
    b"/close": _answer(SMALL, "Connection: close"),
    b"/drop": _answer(SMALL),
    b"/gone": b"",
    b"/half": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + SMALL,
}


class Answering(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._end()) is not None:
            target = self._held.split(b" ", 2)[1]
            self._held = self._held[end:]
            if target == b"/stall":
                return
            self._transport.write(ANSWERS[target])
            if target in (b"/close", b"/drop", b"/gone"):
                self._transport.close()
                return

    def _end(self) -> int | None:
        """Where the first request ends; None: it is not here whole."""
        end = self._held.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        head = self._held[:end]
        if b"transfer-encoding" in head.lower():
            last = self._held.find(_LAST_CHUNK, end)
            return None if last < 0 else last + len(_LAST_CHUNK)
        length = _LENGTH.search(head)
        whole = end + int(length[1]) if length else end
        return whole if len(self._held) >= whole else None


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answering, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    oneloop.run(main())
