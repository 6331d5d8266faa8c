"""The site for Django, by WSGI."""

from __future__ import annotations

from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, StreamingHttpResponse

from tests.ecosystem.frameworks import django_views
from tests.ecosystem.frameworks.files import parts


def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/plain")


def events(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts(), content_type="text/event-stream")


django_views.configure(__name__)
urlpatterns = django_views.patterns(stream=stream, events=events)
app = get_wsgi_application()
