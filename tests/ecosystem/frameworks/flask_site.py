"""The site for Flask."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, redirect, request

from tests.ecosystem.frameworks.files import folder, parts

app = Flask(__name__, static_folder=folder, static_url_path="/static")


@app.get("/text")
def text() -> Response:
    return Response("hello", mimetype="text/plain")


@app.get("/json")
def json() -> dict[str, Any]:
    return {"path": request.path, "query": request.args.to_dict(), "list": list(range(400))}


@app.post("/echo")
def echo() -> Response:
    return Response(request.get_data(), mimetype="application/octet-stream")


@app.post("/upload")
def upload() -> str:
    file = request.files["file"]
    return f"{file.filename} {len(file.read())} {request.form['name']}"


@app.get("/stream")
def stream() -> Response:
    return Response(parts(), mimetype="text/plain")


@app.get("/events")
def events() -> Response:
    return Response(parts(), mimetype="text/event-stream")


@app.get("/redirect")
def redirected() -> Any:
    return redirect("/text")


@app.get("/empty")
def empty() -> tuple[str, int]:
    return "", 204


@app.get("/fails")
def fails() -> str:
    raise ValueError("secret")
