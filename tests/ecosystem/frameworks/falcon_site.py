"""The site for Falcon, by ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import falcon
import falcon.asgi
from falcon.asgi import Request, Response, SSEvent, WebSocket

from tests.ecosystem.frameworks.files import folder


class Text:
    async def on_get(self, request: Request, response: Response) -> None:
        response.content_type = falcon.MEDIA_TEXT
        response.text = "hello"

    on_head = on_get


class Json:
    async def on_get(self, request: Request, response: Response) -> None:
        response.media = {"path": request.path, "query": request.params, "list": list(range(400))}


class Echo:
    async def on_post(self, request: Request, response: Response) -> None:
        response.content_type = "application/octet-stream"
        response.data = await request.stream.readall()


class Upload:
    async def on_post(self, request: Request, response: Response) -> None:
        form: Any = await request.get_media()
        name, file, length = "", "", 0
        async for part in form:
            if part.filename:
                file, length = part.filename, len(await part.stream.readall())
            else:
                name = await part.get_text()
        response.content_type = falcon.MEDIA_TEXT
        response.text = f"{file} {length} {name}"


async def parts() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"data: %d\n\n" % number


class Stream:
    async def on_get(self, request: Request, response: Response) -> None:
        response.content_type = falcon.MEDIA_TEXT
        response.stream = parts()


async def events() -> AsyncIterator[SSEvent]:
    for number in range(3):
        yield SSEvent(text=str(number), event_id=str(number))


class Events:
    async def on_get(self, request: Request, response: Response) -> None:
        response.sse = events()


class Redirect:
    async def on_get(self, request: Request, response: Response) -> None:
        raise falcon.HTTPFound("/text")


class Empty:
    async def on_get(self, request: Request, response: Response) -> None:
        response.status = falcon.HTTP_204


class Fails:
    async def on_get(self, request: Request, response: Response) -> None:
        raise ValueError("secret")


class Socket:
    async def on_websocket(self, request: Request, socket: WebSocket) -> None:
        await socket.accept("echo" if socket.subprotocols else None)
        try:
            while True:
                await socket.send_text(await socket.receive_text())
        except falcon.WebSocketDisconnected:
            pass


app = falcon.asgi.App()
for resource in (Text, Json, Echo, Upload, Stream, Events, Redirect, Empty, Fails, Socket):
    app.add_route(f"/{resource.__name__.lower()}", resource())
app.add_static_route("/static", folder)
