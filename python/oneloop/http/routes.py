"""What the server answers in front of the application: `--metrics`, for ASGI and for WSGI.

Each route makes an `Answer` from a method, a path and the headers; it knows neither interface. Without a route, the
application is called as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oneloop.http.options import Options

__all__ = ["Answer", "Metrics", "with_routes"]


@dataclass(slots=True)
class Answer:
    """What is answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""


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


def with_routes(
    app: Callable[..., Any], interface: str, options: Options, metrics_text: Callable[[], str]
) -> Callable[..., Any]:
    """Put the routes that the options ask for in front of an application."""
    routes: list[Route] = []
    if options.metrics is not None:
        routes.append(Metrics(options.metrics, metrics_text))
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
        await send({"type": "http.response.start", "status": found.status, "headers": fields})
        await send({"type": "http.response.body", "body": found.body})

    return call


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
        return [found.body]

    return call
