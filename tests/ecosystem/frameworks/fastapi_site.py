"""The site for FastAPI."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Request, UploadFile, WebSocket
from fastapi.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from tests.ecosystem.frameworks.files import async_parts as parts
from tests.ecosystem.frameworks.files import folder

app = FastAPI()
app.mount("/static", StaticFiles(directory=folder))


@app.get("/text")
async def text() -> PlainTextResponse:
    return PlainTextResponse("hello")


@app.get("/json")
def json(request: Request) -> dict[str, Any]:
    return {"path": request.url.path, "query": dict(request.query_params), "list": list(range(400))}


@app.post("/echo")
async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type="application/octet-stream")


@app.post("/upload")
async def upload(file: Annotated[UploadFile, File()], name: Annotated[str, Form()]) -> PlainTextResponse:
    return PlainTextResponse(f"{file.filename} {len(await file.read())} {name}")


@app.get("/stream")
async def stream() -> StreamingResponse:
    return StreamingResponse(parts(), media_type="text/plain")


@app.get("/events")
async def events() -> StreamingResponse:
    return StreamingResponse(parts(), media_type="text/event-stream")


@app.get("/redirect")
async def redirect() -> RedirectResponse:
    return RedirectResponse("/text")


@app.get("/empty", status_code=204)
async def empty() -> None: ...


@app.get("/fails")
async def fails() -> None:
    raise ValueError("secret")


@app.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    await websocket.accept(subprotocol="echo" if websocket.scope["subprotocols"] else None)
    async for message in websocket.iter_text():
        await websocket.send_text(message)
