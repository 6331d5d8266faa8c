"""The applications for HTTP servers, by form."""

from __future__ import annotations

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class HttpApp:
    """An application and its interface: `asgi` or `wsgi`."""

    module: str
    interface: str
    #: The packages that it needs.
    needs: str = ""

    @property
    def target(self) -> str:
        """The name for a server's command line."""
        return f"{self.module}:app"

    def load(self) -> object:
        """The application itself. Raises ImportError."""
        found: object = importlib.import_module(self.module).app
        return found


ASGI = HttpApp("bench.rivals.asgi_app", "asgi")
APPS = {
    "http": ASGI,
    "websocket": ASGI,
    "static": ASGI,
    "wsgi": HttpApp("bench.rivals.wsgi_app", "wsgi"),
    "fastapi": HttpApp("bench.rivals.fastapi_app", "asgi", "fastapi"),
    "flask": HttpApp("bench.rivals.flask_app", "wsgi", "flask"),
}
