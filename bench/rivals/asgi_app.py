"""The ASGI application that uvicorn and granian serve: `GET /N` is answered by N bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping

Message = MutableMapping[str, object]


async def app(
    scope: MutableMapping[str, object],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    body = b"x" * int(str(scope["path"])[1:])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
