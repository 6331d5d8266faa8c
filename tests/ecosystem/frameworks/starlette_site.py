"""The site for Starlette."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from tests.ecosystem.frameworks.files import async_parts as parts
from tests.ecosystem.frameworks.files import folder


async def text(request: Request) -> Response:
    return PlainTextResponse("hello", background=BackgroundTask(lambda: None))


async def json(request: Request) -> Response:
    return JSONResponse({"path": request.url.path, "query": dict(request.query_params), "list": list(range(400))})


async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type="application/octet-stream")


async def upload(request: Request) -> Response:
    async with request.form() as form:
        file = form["file"]
        assert not isinstance(file, str)
        return PlainTextResponse(f"{file.filename} {len(await file.read())} {form['name']}")


async def stream(request: Request) -> Response:
    return StreamingResponse(parts(), media_type="text/plain")


async def events(request: Request) -> Response:
    return StreamingResponse(parts(), media_type="text/event-stream")


async def redirect(request: Request) -> Response:
    return RedirectResponse("/text")


async def empty(request: Request) -> Response:
    return Response(status_code=204)


async def fails(request: Request) -> Response:
    raise ValueError("secret")


async def socket(websocket: WebSocket) -> None:
    await websocket.accept(subprotocol="echo" if websocket.scope["subprotocols"] else None)
    async for message in websocket.iter_text():
        await websocket.send_text(message)


app = Starlette(
    routes=[
        Route("/text", text),
        Route("/json", json),
        Route("/echo", echo, methods=["POST"]),
        Route("/upload", upload, methods=["POST"]),
        Route("/stream", stream),
        Route("/events", events),
        Route("/redirect", redirect),
        Route("/empty", empty),
        Route("/fails", fails),
        WebSocketRoute("/socket", socket),
        Mount("/static", StaticFiles(directory=folder)),
    ],
    middleware=[Middleware(GZipMiddleware)],
)
