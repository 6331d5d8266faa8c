"""One chat room over WebSockets. See README.md."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

ROOM: set[asyncio.Queue[str]] = set()
LONGEST_QUEUE = 100


async def page(request: Request) -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))


def tell(text: str) -> None:
    for queue in [*ROOM]:
        try:
            queue.put_nowait(text)
        except asyncio.QueueFull:
            # Its client reads too slowly. `send` ends when it has no queue any more.
            ROOM.discard(queue)
            queue.get_nowait()
            queue.put_nowait("")


async def send(socket: WebSocket, queue: asyncio.Queue[str]) -> None:
    while queue in ROOM:
        await socket.send_text(await queue.get())
    await socket.close(1008, "too slow")


async def room(socket: WebSocket) -> None:
    await socket.accept()
    queue: asyncio.Queue[str] = asyncio.Queue(LONGEST_QUEUE)
    ROOM.add(queue)
    sender = asyncio.create_task(send(socket, queue))
    try:
        tell(f"{len(ROOM)} here")
        async for text in socket.iter_text():
            tell(text)
    except WebSocketDisconnect:
        pass
    finally:
        ROOM.discard(queue)
        sender.cancel()


app = Starlette(routes=[Route("/", page), WebSocketRoute("/room", room)])
