"""What is answered in front of an application: the same for both interfaces."""

from __future__ import annotations

import asyncio
from typing import Any

from oneloop.http.options import Options
from oneloop.http.routes import with_routes

OPTIONS = Options(metrics="/metrics")


def ask_asgi(path: str, method: str = "GET") -> list[Any]:
    """The messages that are sent."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send("the application's")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    asyncio.run(with_routes(app, "asgi", OPTIONS, lambda: "figures 1\n")(scope, None, send))
    return sent


def ask_wsgi(path: str, options: Options = OPTIONS) -> tuple[str, bytes]:
    statuses: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"the application's"]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
    found = with_routes(app, "wsgi", options, lambda: "figures 1\n")(
        environ, lambda status, fields: statuses.append(status)
    )
    return statuses[0], b"".join(found)


def test_without_a_route_the_application_is_itself() -> None:
    def app() -> None:
        pass

    assert with_routes(app, "asgi", Options(), str) is app


def test_metrics() -> None:
    start, body = ask_asgi("/metrics")
    assert (start["status"], body["body"]) == (200, b"figures 1\n")
    assert ask_asgi("/metrics", "POST")[0]["status"] == 405
    assert ask_asgi("/metrics", "HEAD")[1]["body"] == b""
    assert ask_wsgi("/metrics") == ("200 OK", b"figures 1\n")


def test_metrics_under_a_root_path() -> None:
    """The path is that of the clients. PATH_INFO is what is behind the root path, as in the request."""
    options = Options(root_path="/api", metrics="/api/metrics")
    assert ask_wsgi("/metrics", options) == ("200 OK", b"figures 1\n")
    assert ask_wsgi("/api/metrics", options) == ("200 OK", b"the application's")


def test_other_paths_are_the_applications() -> None:
    assert ask_asgi("/") == ["the application's"]
    assert ask_wsgi("/other") == ("200 OK", b"the application's")


def test_other_scopes_are_the_applications() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    call = with_routes(app, "asgi", OPTIONS, str)
    asyncio.run(call({"type": "websocket", "path": "/metrics"}, None, None))
    assert heard == ["websocket"]
