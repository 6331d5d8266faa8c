"""The ASGI application that the servers serve.

```text
GET /N           N bytes
GET /after/N     N bytes; the application then computes
GET /before/N    a head; the application then computes, and sends N bytes
GET /session/N   N bytes, and what a page of a session has: the request's cookie is looked for and set again
GET /parts/N     N bytes in parts of 64 KiB, each sent separately
POST             the request's body
WebSocket        each message is sent back
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bench.rivals import worker
from bench.rivals.cpu_work import AFTER_ANSWER_S, compute_for

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PART_LEN = 65_536

worker.settle()


async def start(send: Send, length: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def respond(send: Send, body: bytes) -> None:
    await start(send, len(body))
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    """The whole body; most bodies arrive in one message."""
    message = await receive()
    body = bytes(message.get("body", b""))
    if not message.get("more_body", False):
        return body
    parts = [body]
    while message.get("more_body", False):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def send_parts(send: Send, length: int) -> None:
    await start(send, length)
    part = b"x" * PART_LEN
    for at in range(0, length, PART_LEN):
        body = part[: length - at]
        await send({"type": "http.response.body", "body": body, "more_body": at + len(body) < length})


async def respond_in_session(scope: MutableMapping[str, Any], send: Send, length: int) -> None:
    """Looks for the cookie `session` among the request's headers. Without it the answer is 403."""
    cookies = next((value for name, value in scope["headers"] if name == b"cookie"), b"")
    found = next((text for text in cookies.split(b"; ") if text.startswith(b"session=")), None)
    headers = [
        (b"content-type", b"text/plain"),
        (b"content-length", b"%d" % length),
        (b"cache-control", b"private, no-cache"),
        (b"vary", b"Cookie, Accept-Encoding"),
        (b"etag", b'"5d8c72a5edda8"'),
        (b"set-cookie", b"%s; Path=/; HttpOnly; SameSite=Lax" % (found or b"session=")),
    ]
    await send({"type": "http.response.start", "status": 200 if found else 403, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * length})


async def answer(path: str, send: Send) -> None:
    """The paths that are more than a number."""
    kind, _, size = path.partition("/")
    if kind == "parts":
        await send_parts(send, int(size))
        return
    if kind == "before":
        await start(send, int(size))
        compute_for(AFTER_ANSWER_S)
        await send({"type": "http.response.body", "body": b"x" * int(size)})
        return
    await respond(send, b"x" * int(size))
    if kind == "after":
        compute_for(AFTER_ANSWER_S)


async def echo_messages(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


async def live(receive: Receive, send: Send) -> None:
    """The lifespan protocol: nothing to start, nothing to stop."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        path: str = scope["path"][1:]
        if scope["method"] == "POST":
            await respond(send, await read_body(receive))
        elif path.isdigit():
            await respond(send, b"x" * int(path))
        elif path.startswith("session/"):
            await respond_in_session(scope, send, int(path.removeprefix("session/")))
        else:
            await answer(path, send)
    elif scope["type"] == "websocket":
        await echo_messages(receive, send)
    else:
        await live(receive, send)
