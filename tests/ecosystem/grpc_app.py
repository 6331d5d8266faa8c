"""A gRPC service as an ASGI application: messages in HTTP/2 bodies, the status in trailers. Bytes in, bytes out."""

from __future__ import annotations

import asyncio
from typing import Any


class Messages:
    """The messages of a request, one after the other; None at the end."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._held = b""
        self._is_over = False

    async def next(self) -> bytes | None:
        while True:
            if len(self._held) >= 5 and len(self._held) >= 5 + (length := int.from_bytes(self._held[1:5], "big")):
                message, self._held = self._held[5 : 5 + length], self._held[5 + length :]
                return message
            if self._is_over:
                return None
            got = await self._receive()
            if got["type"] == "http.disconnect":
                raise ConnectionResetError
            self._held += got.get("body", b"")
            self._is_over = not got.get("more_body")


async def app(  # noqa: C901 - one branch for each method
    scope: dict[str, Any], receive: Any, send: Any
) -> None:
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    messages = Messages(receive)
    headers = [(b"content-type", b"application/grpc")]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})

    async def reply(message: bytes) -> None:
        body = b"\0" + len(message).to_bytes(4, "big") + message
        await send({"type": "http.response.body", "body": body, "more_body": True})

    status, text = b"0", b""
    method = scope["path"].rpartition("/")[2]
    try:
        if method == "Unary":
            await reply(await messages.next() or b"")
        elif method == "Down":
            for number in range(int(await messages.next() or b"0")):
                await reply(str(number).encode())
        elif method == "Up":
            total = 0
            while (message := await messages.next()) is not None:
                total += len(message)
            await reply(str(total).encode())
        elif method == "Both":
            while (message := await messages.next()) is not None:
                await reply(message[::-1])
        elif method == "Slow":
            print("slow began", flush=True)
            while (await receive())["type"] != "http.disconnect":
                pass
            print("slow was cancelled", flush=True)
            return
        elif method == "Fail":
            status, text = b"9", b"of%20the%20test"
        else:
            status, text = b"12", b"no such method"
    except ConnectionResetError:
        print("cancelled", flush=True)
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    trailers = [(b"grpc-status", status), (b"grpc-message", text)]
    await send({"type": "http.response.trailers", "headers": trailers})
    await asyncio.sleep(0)
