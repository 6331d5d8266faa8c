"""Raw WebSocket frames of a client, and a strict reader of the server's (RFC 6455 section 5.2)."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from tests.http.site import Answer, Site, Wire

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
MASK = b"\x37\xfa\x21\x3d"


def handshake(*fields: bytes, path: bytes = b"/", without: bytes = b"-", line: bytes = b"") -> bytes:
    """The request of a WebSocket; `without` names a field that is left out."""
    usual = [
        b"Host: a",
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: " + KEY,
    ]
    kept = [field for field in usual if not field.startswith(without)]
    return b"\r\n".join([line or b"GET %s HTTP/1.1" % path, *kept, *fields, b"", b""])


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, rsv: int = 0, mask: bytes | None = MASK) -> bytes:
    size = len(payload)
    bit = 0x80 if mask is not None else 0
    head = bytes([(0x80 if final else 0) | rsv << 4 | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + size.to_bytes(8, "big")
    if mask is None:
        return head + payload
    repeated = (mask * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
    return head + mask + masked


def close(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode())


def deflated(payload: bytes) -> bytes:
    """As permessage-deflate sends it (RFC 7692 section 7.2.1)."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return data.removesuffix(b"\0\0\xff\xff")


def inflated(payload: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")


class Frame(NamedTuple):
    opcode: int
    payload: bytes
    is_final: bool = True
    rsv: int = 0


class Socket:
    """A client after its handshake."""

    def __init__(self, wire: Wire, answer: Answer) -> None:
        self.wire, self.answer = wire, answer

    async def send(self, data: bytes) -> None:
        await self.wire.send(data)

    async def frame(self) -> Frame:
        read = self.wire.reader.readexactly
        first, size = await read(2)
        assert not size & 0x80, "a server's frame is not masked"
        if size == 126:
            size = int.from_bytes(await read(2), "big")
            assert size > 125
        elif size == 127:
            size = int.from_bytes(await read(8), "big")
            assert size > 0xFFFF
        return Frame(first & 15, await read(size), bool(first & 0x80), first >> 4 & 7)

    async def closing(self) -> tuple[int, str]:
        """The server's close frame, its code and reason, and the end of the connection."""
        got = await self.frame()
        assert got.opcode == CLOSE, got
        assert await self.wire.rest() == b""
        return int.from_bytes(got.payload[:2], "big"), got.payload[2:].decode()


async def opened(site: Site, *fields: bytes, path: bytes = b"/") -> Socket:
    wire = await site.connect()
    answer = await wire.ask(handshake(*fields, path=path))
    assert answer.status == 101, answer
    return Socket(wire, answer)
