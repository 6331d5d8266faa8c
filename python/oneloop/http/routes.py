"""Requests that the server answers instead of the application: `--metrics`, for ASGI and for WSGI.

A route returns an `Answer` for a method and a path, independent of the interface. Without a route, the application is
called directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.http.options import Options

__all__ = ["Answer", "Metrics", "with_routes"]


@dataclass(slots=True)
class Answer:
    """A response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""


class Metrics:
    """The path of `--metrics`."""

    def __init__(self, path: str, text: Callable[[], str]) -> None:
        self.path = path
        self._text = text

    def answer(self, method: str) -> Answer:
        """Return the response with the current metrics."""
        if method not in ("GET", "HEAD"):
            return Answer(405, [("allow", "GET, HEAD"), ("content-length", "0")])
        body = self._text().encode()
        fields = [("content-type", "text/plain; version=0.0.4; charset=utf-8"), ("cache-control", "no-store")]
        return Answer(200, [*fields, ("content-length", str(len(body)))], body if method == "GET" else b"")


def with_routes(
    app: Callable[..., Any], interface: str, options: Options, metrics_text: Callable[[], str]
) -> Callable[..., Any]:
    """Wrap an application with the routes that the options enable."""
    if options.metrics is None:
        return app
    route = Metrics(options.metrics, metrics_text)
    return _asgi(app, route) if interface == "asgi" else _wsgi(app, route, options.root_path)


def _asgi(app: Callable[..., Any], route: Metrics) -> Callable[..., Any]:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != route.path:
            await app(scope, receive, send)
            return
        found = route.answer(scope["method"])
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found.headers]
        await send({"type": "http.response.start", "status": found.status, "headers": fields})
        await send({"type": "http.response.body", "body": found.body})

    return call


def _wsgi(app: Callable[..., Any], route: Metrics, root_path: str) -> Callable[..., Any]:
    def call(environ: dict[str, Any], start_response: Any) -> Any:
        # The path as clients see it, which ASGI applications get.
        path = root_path + environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
        if path != route.path:
            return app(environ, start_response)
        found = route.answer(environ["REQUEST_METHOD"])
        start_response(f"{found.status} {HTTPStatus(found.status).phrase}", found.headers)
        return [found.body]

    return call
