"""The site for Django, by ASGI: what can be a coroutine is one."""

from __future__ import annotations

from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from tests.ecosystem.frameworks import django_views
from tests.ecosystem.frameworks.files import async_parts as parts


async def json(request: HttpRequest) -> HttpResponse:
    return django_views.json(request)


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/plain")


async def events(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/event-stream")


async def redirect(request: HttpRequest) -> HttpResponse:
    return django_views.redirect(request)


async def empty(request: HttpRequest) -> HttpResponse:
    return django_views.empty(request)


async def fails(request: HttpRequest) -> HttpResponse:
    return django_views.fails(request)


django_views.configure(__name__)
urlpatterns = django_views.patterns(
    json=json, stream=stream, events=events, redirect=redirect, empty=empty, fails=fails
)
app = get_asgi_application()
