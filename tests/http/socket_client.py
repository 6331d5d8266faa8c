"""`SocketClient`: reads its socket when its test says so, and does not answer the end of TLS.

An asyncio transport reads ahead, loses what it has read at a reset, and closes when its peer does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Self


class SocketClient:
    """A connection of a client, with TLS if there is a context. By default, it takes little before it reads."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None, host: str) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = None if context is None else context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.got = bytearray()

    @classmethod
    async def connect(
        cls, port: int, context: ssl.SSLContext | None = None, host: str = "localhost", buffer_bytes: int = 4096
    ) -> Self:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        client = cls(sock, context, host)
        if client.tls is not None:
            while True:
                try:
                    client.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await client._flush()
                    client.incoming.write(await client._receive())
            await client._flush()
        return client

    async def _flush(self) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, self.outgoing.read())

    async def _receive(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self.sock, 65_536)
        # What was read is acknowledged 40 ms later otherwise (tcp(7)), which is long in virtual time.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data

    async def send(self, data: bytes) -> None:
        if self.tls is None:
            await asyncio.get_running_loop().sock_sendall(self.sock, data)
            return
        self.tls.write(data)
        await self._flush()

    def end(self) -> None:
        """End this side, without TLS's close_notify."""
        self.sock.shutdown(socket.SHUT_WR)

    async def say_goodbye(self) -> None:
        """End this side, with TLS by its close_notify alone, and read on."""
        if self.tls is None:
            self.end()
            return
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self._flush()

    async def read(self) -> bool:
        """Read once, and add it to `got`. False at an orderly end; ConnectionResetError at another."""
        data = await self._receive()
        if self.tls is None:
            self.got += data
            return bool(data)
        if not data:
            raise ssl.SSLEOFError("the end of TCP without one of TLS")
        self.incoming.write(data)
        while True:
            try:
                text = self.tls.read(65_536)
            except ssl.SSLWantReadError:
                return True
            except ssl.SSLZeroReturnError:
                return False
            if not text:
                return False
            self.got += text

    async def rest(self) -> bytearray:
        """Everything to the orderly end."""
        while await self.read():
            pass
        return self.got

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self) -> None:
        self.sock.close()
