"""The site for Quart."""

from __future__ import annotations

from typing import Any

from quart import Quart, Response, redirect, request, websocket

from tests.ecosystem.frameworks.files import async_parts as parts
from tests.ecosystem.frameworks.files import folder

app = Quart(__name__, static_folder=folder, static_url_path="/static")


@app.get("/text")
async def text() -> Response:
    return Response("hello", mimetype="text/plain")


@app.get("/json")
async def json() -> dict[str, Any]:
    return {"path": request.path, "query": request.args.to_dict(), "list": list(range(400))}


@app.post("/echo")
async def echo() -> Response:
    return Response(await request.get_data(), mimetype="application/octet-stream")


@app.post("/upload")
async def upload() -> str:
    files, form = await request.files, await request.form
    return f"{files['file'].filename} {len(files['file'].read())} {form['name']}"


@app.get("/stream")
async def stream() -> Response:
    return Response(parts(), mimetype="text/plain")


@app.get("/events")
async def events() -> Response:
    return Response(parts(), mimetype="text/event-stream")


@app.get("/redirect")
async def redirected() -> Any:
    return redirect("/text")


@app.get("/empty")
async def empty() -> tuple[str, int]:
    return "", 204


@app.get("/fails")
async def fails() -> str:
    raise ValueError("secret")


@app.websocket("/socket")
async def socket() -> None:
    await websocket.accept(subprotocol="echo" if websocket.requested_subprotocols else None)
    while True:
        await websocket.send(await websocket.receive())
