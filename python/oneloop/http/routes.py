"""What the server answers in front of the application: `--metrics` and `--static`, for ASGI and for WSGI.

Each route makes an `Answer` from a method, a path and the headers; it knows neither interface. Without a route, the
application is called as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from oneloop.http.static import Static, StaticFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from oneloop.http.options import Options

__all__ = ["Answer", "Metrics", "with_routes"]

CHUNK_BYTES = 256 * 1024
PATHSEND = "http.response.pathsend"


@dataclass(slots=True)
class Answer:
    """What is answered; the body is `body`, or the part of a file."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    file: StaticFile | None = None


class Route(Protocol):
    """Answers requests; None leaves a request to the next one."""

    def covers(self, path: str) -> bool:
        """Whether it may answer for a path; headers are made for those only."""

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        """Make an answer."""


class Metrics:
    """The path of `--metrics`."""

    def __init__(self, path: str, text: Callable[[], str]) -> None:
        self._path = path
        self._text = text

    def covers(self, path: str) -> bool:
        """Whether it is this path."""
        return path == self._path

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        """The metrics as they are now."""
        if path != self._path:
            return None
        if method not in ("GET", "HEAD"):
            return Answer(405, [("allow", "GET, HEAD"), ("content-length", "0")])
        body = self._text().encode()
        fields = [("content-type", "text/plain; version=0.0.4; charset=utf-8"), ("cache-control", "no-store")]
        return Answer(200, [*fields, ("content-length", str(len(body)))], body if method == "GET" else b"")


class _Files:
    """The folder of a `--static`."""

    def __init__(self, url: str, folder: str) -> None:
        self._static = Static(url, folder)
        self.covers = self._static.covers

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        found = self._static.answer(method, path, headers)
        if found is None:
            return None
        return Answer(found.status, found.headers, found.body, found.file)


def with_routes(
    app: Callable[..., Any], interface: str, options: Options, metrics_text: Callable[[], str]
) -> Callable[..., Any]:
    """Put the routes that the options ask for in front of an application."""
    routes: list[Route] = []
    if options.metrics is not None:
        routes.append(Metrics(options.metrics, metrics_text))
    # The longest URL first: one may lie in another.
    for url, folder in sorted(options.static, key=lambda one: -len(one[0])):
        routes.append(_Files(url, folder))
    if not routes:
        return app
    return _asgi(app, routes) if interface == "asgi" else _wsgi(app, routes)


def _first(
    routes: Sequence[Route], method: str, path: str, make_headers: Callable[[], Mapping[str, str]]
) -> Answer | None:
    for route in routes:
        if route.covers(path):
            found = route.answer(method, path, make_headers())
            if found is not None:
                return found
    return None


def _asgi(app: Callable[..., Any], routes: Sequence[Route]) -> Callable[..., Any]:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        def headers() -> dict[str, str]:
            return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

        found = _first(routes, scope["method"], scope["path"], headers)
        if found is None:
            await app(scope, receive, send)
            return
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found.headers]
        try:
            await send({"type": "http.response.start", "status": found.status, "headers": fields})
            if found.file is None:
                await send({"type": "http.response.body", "body": found.body})
            elif found.status == 200 and PATHSEND in (scope.get("extensions") or ()):
                # The whole of the file that is open here, whatever its name leads to by now.
                await send({"type": PATHSEND, "path": f"/proc/self/fd/{found.file.fd}"})
            else:
                await _send_file(found.file, send)
        finally:
            if found.file is not None:
                found.file.close()

    return call


async def _send_file(file: StaticFile, send: Any) -> None:
    loop = asyncio.get_running_loop()
    position, end = file.start, file.start + file.length
    while True:
        want = min(CHUNK_BYTES, end - position)
        # What is small is read at once: the pool would take longer than a page that is cached.
        if file.length <= CHUNK_BYTES:
            data = os.pread(file.fd, want, position)
        else:
            data = await loop.run_in_executor(None, os.pread, file.fd, want, position)
        position += len(data)
        if not data and want:
            # It has become shorter: the connection is closed, for the rest is missing.
            raise OSError("a static file was cut while it was sent")
        await send({"type": "http.response.body", "body": data, "more_body": position < end})
        if position >= end:
            return


def _wsgi(app: Callable[..., Any], routes: Sequence[Route]) -> Callable[..., Any]:
    def call(environ: dict[str, Any], start_response: Any) -> Any:
        def headers() -> dict[str, str]:
            return {
                name.removeprefix("HTTP_").replace("_", "-").lower(): value
                for name, value in environ.items()
                if name.startswith("HTTP_")
            }

        path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
        found = _first(routes, environ["REQUEST_METHOD"], path, headers)
        if found is None:
            return app(environ, start_response)
        start_response(f"{found.status} {HTTPStatus(found.status).phrase}", found.headers)
        return [found.body] if found.file is None else _Reading(found.file)

    return call


class _Reading:
    """The body of a file, for WSGI."""

    def __init__(self, file: StaticFile) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        position, end = self._file.start, self._file.start + self._file.length
        while position < end:
            data = os.pread(self._file.fd, min(CHUNK_BYTES, end - position), position)
            if not data:
                raise OSError("a static file was cut while it was sent")
            position += len(data)
            yield data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
