"""The ASGI application that uvicorn and granian serve: `GET /N` is answered by N bytes."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Awaitable, Callable, MutableMapping

# granian's worker is not the process that the bench started: it too must die with its parent (man 2 prctl).
_PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

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
