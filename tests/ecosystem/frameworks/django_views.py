"""What the two sites of Django have in common: the settings, and the views that do not wait."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect as to
from django.urls import URLPattern, path

from tests.ecosystem.frameworks.files import folder


def configure(urls: str) -> None:
    """Set Django up for a process, unless it is."""
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            ROOT_URLCONF=urls,
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


def redirect(request: HttpRequest) -> HttpResponse:
    return to("/text")


def empty(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


def fails(request: HttpRequest) -> HttpResponse:
    raise ValueError("secret")


def static(request: HttpRequest, name: str) -> FileResponse:
    return FileResponse(open(f"{folder}/{name}", "rb"))


def patterns(**others: Any) -> list[URLPattern]:
    """The URLs of the views: these and others, by name; of two with a name the other."""
    views = {view.__name__: view for view in (text, json, echo, upload, redirect, empty, fails)}
    views.update(others)
    return [*(path(name, view) for name, view in views.items()), path("static/<str:name>", static)]
