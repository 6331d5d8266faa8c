"""What is answered in front of an application: routes know neither interface, and both get the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oneloop.http.options import Options
from oneloop.http.routes import with_routes

SIZE_BYTES = 600_000


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "deep").mkdir()
    (tmp_path / "big.bin").write_bytes(bytes(SIZE_BYTES))
    (tmp_path / "deep" / "small.txt").write_text("small")
    return Options(metrics="/metrics", static=[("/s", str(tmp_path)), ("/s/own", str(tmp_path / "deep"))])


def ask_asgi(options: Options, path: str, method: str = "GET", extensions: Any = None) -> list[Any]:
    """The messages that are sent."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send("the application's")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.pathsend":
            # While the path leads there.
            message["body"] = Path(message["path"]).read_bytes()
        sent.append(message)

    async def keep(message: Any) -> None:
        if isinstance(message, str):
            sent.append(message)
        else:
            await send(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "extensions": extensions}
    asyncio.run(with_routes(app, "asgi", options, lambda: "figures 1\n")(scope, None, keep))
    return sent


def ask_wsgi(options: Options, path: str) -> tuple[str, bytes]:
    statuses: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"the application's"]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
    found = with_routes(app, "wsgi", options, lambda: "figures 1\n")(
        environ, lambda status, fields: statuses.append(status)
    )
    body = b"".join(found)
    getattr(found, "close", lambda: None)()
    return statuses[0], body


def test_without_a_route_the_application_is_itself() -> None:
    def app() -> None:
        pass

    assert with_routes(app, "asgi", Options(), str) is app


def test_metrics(options: Options) -> None:
    start, body = ask_asgi(options, "/metrics")
    assert (start["status"], body["body"]) == (200, b"figures 1\n")
    assert ask_asgi(options, "/metrics", "POST")[0]["status"] == 405
    assert ask_asgi(options, "/metrics", "HEAD")[1]["body"] == b""
    assert ask_wsgi(options, "/metrics") == ("200 OK", b"figures 1\n")


def test_files(options: Options) -> None:
    start, *bodies = ask_asgi(options, "/s/big.bin")
    assert start["status"] == 200
    assert b"".join(one["body"] for one in bodies) == bytes(SIZE_BYTES)
    assert [one["more_body"] for one in bodies] == [True, True, False]
    assert ask_wsgi(options, "/s/big.bin") == ("200 OK", bytes(SIZE_BYTES))
    assert ask_wsgi(options, "/s/nothing")[0] == "404 Not Found"


def test_the_longest_url_comes_first(options: Options) -> None:
    assert ask_asgi(options, "/s/own/small.txt")[1]["body"] == b"small"
    assert ask_asgi(options, "/s/deep/small.txt")[1]["body"] == b"small"


def test_whole_files_are_sent_by_their_path_where_the_server_can(options: Options) -> None:
    _, body = ask_asgi(options, "/s/big.bin", extensions={"http.response.pathsend": {}})
    assert body["type"] == "http.response.pathsend"
    assert body["body"] == bytes(SIZE_BYTES)


def test_other_paths_are_the_applications(options: Options) -> None:
    assert ask_asgi(options, "/") == ["the application's"]
    assert ask_wsgi(options, "/other") == ("200 OK", b"the application's")


def test_other_scopes_are_the_applications(options: Options) -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    call = with_routes(app, "asgi", options, str)
    asyncio.run(call({"type": "websocket", "path": "/metrics"}, None, None))
    assert heard == ["websocket"]
