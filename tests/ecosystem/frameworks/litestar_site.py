"""The site for Litestar."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Litestar, MediaType, Request, get, post, websocket
from litestar.connection import WebSocket
from litestar.datastructures import UploadFile
from litestar.enums import RequestEncodingType
from litestar.params import Body
from litestar.response import Redirect, Response, ServerSentEvent, Stream
from litestar.static_files import create_static_files_router

from tests.ecosystem.frameworks.files import async_parts as parts
from tests.ecosystem.frameworks.files import folder


@get("/text", media_type=MediaType.TEXT)
async def text() -> str:
    return "hello"


@get("/json")
async def json(request: Request[Any, Any, Any]) -> dict[str, Any]:
    return {"path": request.url.path, "query": dict(request.query_params), "list": list(range(400))}


@post("/echo", status_code=200)
async def echo(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(await request.body(), media_type="application/octet-stream")


@post("/upload", media_type=MediaType.TEXT, status_code=200)
async def upload(data: Annotated[dict[str, Any], Body(media_type=RequestEncodingType.MULTI_PART)]) -> str:
    file: UploadFile = data["file"]
    return f"{file.filename} {len(await file.read())} {data['name']}"


@get("/stream")
async def stream() -> Stream:
    return Stream(parts(), media_type="text/plain")


@get("/events")
async def events() -> ServerSentEvent:
    return ServerSentEvent(parts())


@get("/redirect")
async def redirect() -> Redirect:
    return Redirect("/text")


@get("/empty", status_code=204)
async def empty() -> None: ...


@get("/fails")
async def fails() -> None:
    raise ValueError("secret")


@websocket("/socket")
async def socket(socket: WebSocket[Any, Any, Any]) -> None:
    await socket.accept(subprotocols="echo" if socket.scope["subprotocols"] else None)
    async for message in socket.iter_data():
        await socket.send_text(message)


app = Litestar(
    [text, json, echo, upload, stream, events, redirect, empty, fails, socket,
     create_static_files_router("/static", [folder])],
    openapi_config=None,
    # What litestar.logging would add are threads.
    logging_config=None,
)  # fmt: skip
