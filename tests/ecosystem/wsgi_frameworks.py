"""Flask and Django applications, served as they are: hello, an upload, a stream, a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


def _parts() -> Iterator[str]:
    for number in range(100):
        yield f"part {number}\n"


def make_flask() -> Any:
    import flask

    app = flask.Flask(__name__)

    @app.get("/hello")
    def hello() -> str:
        return "hello"

    @app.post("/upload")
    def upload() -> Any:
        file = flask.request.files["file"]
        return flask.jsonify(name=file.filename, length=len(file.read()), field=flask.request.form["field"])

    @app.get("/stream")
    def stream() -> Any:
        return flask.Response(_parts(), mimetype="text/plain")

    @app.get("/file")
    def send_file() -> Any:
        return flask.send_file(io.BytesIO(b"f" * 200_000), mimetype="application/octet-stream")

    @app.get("/own")
    def own() -> Any:
        return flask.send_file(__file__, conditional=True)

    @app.get("/boom")
    def boom() -> str:
        raise RuntimeError("secret")

    return app


def make_django() -> Any:
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
    from django.urls import path

    def hello(request: Any) -> Any:
        return HttpResponse("hello", content_type="text/plain")

    def upload(request: Any) -> Any:
        file = request.FILES["file"]
        return JsonResponse({"name": file.name, "length": len(file.read()), "field": request.POST["field"]})

    def stream(request: Any) -> Any:
        return StreamingHttpResponse(_parts(), content_type="text/plain")

    def file(request: Any) -> Any:
        return FileResponse(io.BytesIO(b"f" * 200_000), content_type="application/octet-stream")

    def own(request: Any) -> Any:
        return FileResponse(open(__file__, "rb"), content_type="text/x-python")

    def boom(request: Any) -> Any:
        raise RuntimeError("secret")

    views = (hello, upload, stream, file, own, boom)
    urls = type("Urls", (), {"urlpatterns": [path(view.__name__, view) for view in views]})
    settings.configure(SECRET_KEY="a", ROOT_URLCONF=urls, ALLOWED_HOSTS=["*"], MIDDLEWARE=[], LOGGING_CONFIG=None)
    django.setup()
    return get_wsgi_application()


def __getattr__(name: str) -> Any:
    if name == "flask_app":
        return make_flask()
    if name == "django_app":
        return make_django()
    raise AttributeError(name)
