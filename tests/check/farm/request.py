"""`Request`: what a client of the farm asked for; `Answer`: the way back to it."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

WITHOUT_BODY = {204, 304}


@dataclass(frozen=True)
class Request:
    """A request whose body, if any, has been read."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def parts(self) -> list[str]:
        """The path, split at its slashes: `/status/200?a=b` is status, 200."""
        return [unquote(part) for part in self.target.partition("?")[0].strip("/").split("/")]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))

    def number(self, at: int, default: int = 0) -> int:
        """The number that stands at this place of the path."""
        return int(self.parts[at]) if at < len(self.parts) else default


def reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus else "Unheard Of"


class Answer:
    """Writes to the client; a client that has gone raises ConnectionError. After `ends`, the connection is closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str) -> None:
        self.reader, self.writer, self.method = reader, writer, method
        self.ends = False

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        # Without this, a client that keeps up would have the whole farm for itself.
        await asyncio.sleep(0)
        if self.writer.is_closing():
            raise ConnectionResetError("the client has gone")

    async def good(self, status: int = 200, body: bytes = b"ok\n", **headers: str) -> None:
        """A valid answer with its length; no body for HEAD and where the status has none."""
        lines = [f"HTTP/1.1 {status} {reason(status)}"]
        lines += [f"{name.replace('_', '-').title()}: {value}" for name, value in headers.items()]
        if status in WITHOUT_BODY:
            body = b""
        else:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode()
        await self.raw(head if self.method == "HEAD" else head + body)

    async def head(self, *lines: str) -> None:
        """The head of a 200 with these header lines; what follows is the caller's."""
        await self.raw("\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode("latin-1"))

    async def hold(self) -> None:
        """Says nothing until the client goes."""
        self.ends = True
        while await self.reader.read(65_536):
            pass

    def end(self) -> None:
        """Nothing more; the end of the stream."""
        self.ends = True

    def reset(self) -> None:
        """Ends the connection with a reset, after what was sent (man 7 socket, SO_LINGER)."""
        self.ends = True
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
