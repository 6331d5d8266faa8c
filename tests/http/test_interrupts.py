"""KeyboardInterrupt that the application raises, not a signal: one request fails with it, and the server goes on.

uvicorn and gunicorn do the same. A task or a green thread that ends with it ends the server, as a signal does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.http.service import Service

APPS = """
import asyncio


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    if scope["path"] == "/raise":
        raise KeyboardInterrupt
    if scope["path"] == "/task":
        KEPT.append(asyncio.create_task(interrupt()))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


KEPT = []


async def interrupt():
    raise KeyboardInterrupt


def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/raise":
        raise KeyboardInterrupt
    if environ["PATH_INFO"] == "/task":
        from oneloop import green

        green.spawn(fail)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def fail():
    raise KeyboardInterrupt
"""

WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "asgi": ("apps:app", ()),
    "asgi workers": ("apps:app", ("--workers", "2")),
    "wsgi threads": ("apps:wsgi", ()),
    "wsgi green": ("apps:wsgi", ("--green",)),
}


@pytest.mark.parametrize("way", WAYS)
def test_only_the_request_fails(tmp_path: Path, way: str) -> None:
    app, arguments = WAYS[way]
    with Service(tmp_path, *arguments, app=app, source=APPS) as service:
        for _ in range(3):
            assert service.ask("GET", "/raise")[0] == 500
        assert service.ask("GET", "/")[0] == 200
        assert service.end() == 0
    assert service.log.text.count("Traceback") == 3
    assert "Shutting down" in service.log.text or "exiting" in service.log.text


@pytest.mark.parametrize("way", ["asgi", "wsgi green"])
def test_a_task_that_is_interrupted_ends_the_server_as_a_signal(tmp_path: Path, way: str) -> None:
    app, arguments = WAYS[way]
    with Service(tmp_path, *arguments, app=app, source=APPS) as service:
        assert service.ask("GET", "/task")[2] == b"ok"
        assert service.wait() == 0
    assert service.log.text.count("Shutting down") == 1
    assert "Finished server process" in service.log.text
