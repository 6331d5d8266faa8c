"""The site for Falcon, by WSGI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import falcon
from falcon import Request, Response

from tests.ecosystem.frameworks.files import folder


class Text:
    def on_get(self, request: Request, response: Response) -> None:
        response.content_type = falcon.MEDIA_TEXT
        response.text = "hello"

    on_head = on_get


class Json:
    def on_get(self, request: Request, response: Response) -> None:
        response.media = {"path": request.path, "query": request.params, "list": list(range(400))}


class Echo:
    def on_post(self, request: Request, response: Response) -> None:
        response.content_type = "application/octet-stream"
        # Its own stream ends with the request's Content-Length: a chunked body has none.
        response.data = request.stream.read()


class Upload:
    def on_post(self, request: Request, response: Response) -> None:
        form: Any = request.get_media()
        name, file, length = "", "", 0
        for part in form:
            if part.filename:
                file, length = part.filename, len(part.stream.read())
            else:
                name = part.get_text()
        response.content_type = falcon.MEDIA_TEXT
        response.text = f"{file} {length} {name}"


def parts() -> Iterator[bytes]:
    for number in range(3):
        yield b"data: %d\n\n" % number


class Stream:
    def on_get(self, request: Request, response: Response) -> None:
        response.content_type = falcon.MEDIA_TEXT
        response.stream = parts()


class Events:
    def on_get(self, request: Request, response: Response) -> None:
        response.content_type = "text/event-stream"
        response.stream = parts()


class Redirect:
    def on_get(self, request: Request, response: Response) -> None:
        raise falcon.HTTPFound("/text")


class Empty:
    def on_get(self, request: Request, response: Response) -> None:
        response.status = falcon.HTTP_204


class Fails:
    def on_get(self, request: Request, response: Response) -> None:
        raise ValueError("secret")


app = falcon.App()
for resource in (Text, Json, Echo, Upload, Stream, Events, Redirect, Empty, Fails):
    app.add_route(f"/{resource.__name__.lower()}", resource())
app.add_static_route("/static", folder)
