"""The site for Django, by WSGI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import django
from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect as to
from django.urls import path

from tests.ecosystem.frameworks.files import folder

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="a",
        LOGGING_CONFIG=None,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    )
    django.setup()


def text(request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello", content_type="text/plain")


def json(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"path": request.path, "query": request.GET.dict(), "list": list(range(400))})


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.body, content_type="application/octet-stream")


def upload(request: HttpRequest) -> HttpResponse:
    file: Any = request.FILES["file"]
    return HttpResponse(f"{file.name} {len(file.read())} {request.POST['name']}")


def parts() -> Iterator[str]:
    for number in range(3):
        yield f"data: {number}\n\n"


def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/plain")


def events(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/event-stream")


def redirect(request: HttpRequest) -> HttpResponse:
    return to("/text")


def empty(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


def fails(request: HttpRequest) -> HttpResponse:
    raise ValueError("secret")


def static(request: HttpRequest, name: str) -> FileResponse:
    return FileResponse(open(f"{folder}/{name}", "rb"))


views = [text, json, echo, upload, stream, events, redirect, empty, fails]
urlpatterns = [*(path(view.__name__, view) for view in views), path("static/<str:name>", static)]


def make() -> Any:
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


app = make()
