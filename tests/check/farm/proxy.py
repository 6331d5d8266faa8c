"""An HTTP proxy: absolute targets and CONNECT. All names below .test are 127.0.0.1 to it."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

from tests.check.farm.connection import Serving, read_request
from tests.check.farm.request import Answer


def address(netloc: str, default_port: int) -> tuple[str, int]:
    """Where to connect for `host:port`."""
    parts = urlsplit(f"//{netloc}")
    host = parts.hostname or ""
    return ("127.0.0.1" if host.endswith(".test") else host), parts.port or default_port


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All bytes to the end of the stream, which it hands on."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


class Proxy(Serving):
    """One request for each connection; what follows is handed through."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is None:
            return
        host = request.headers.get("host", "")
        with self.counts.request(self.name, request.method, host, request.target, request.headers):
            parts = urlsplit(request.target)
            netloc = request.target if request.method == "CONNECT" else parts.netloc
            try:
                far_reader, far_writer = await asyncio.open_connection(*address(netloc, 80))
            except OSError:
                await Answer(reader, writer, request.method).good(502)
                return
            if request.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = {name: value for name, value in request.headers.items() if not name.startswith("proxy-")}
                lines = [f"{name}: {value}" for name, value in {**kept, "connection": "close"}.items()]
                target = parts._replace(scheme="", netloc="").geturl() or "/"
                text = "\r\n".join([f"{request.method} {target} HTTP/1.1", *lines, "", ""])
                far_writer.write(text.encode("latin-1"))
            await self.relay(reader, writer, far_reader, far_writer)

    async def relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Both directions, until the far end has said all that it has to say."""
        upwards = asyncio.ensure_future(copy(reader, far_writer))
        await copy(far_reader, writer)
        upwards.cancel()
        far_writer.close()
