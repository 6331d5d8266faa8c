"""`wsgiref.simple_server` with the applications of `wsgi_apps`, beside the test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, make_server

from tests.http import wsgi_apps


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def reference() -> Iterator[int]:
    """Its port."""
    server = make_server("127.0.0.1", 0, wsgi_apps.app, handler_class=_Quiet)  # type: ignore[arg-type]
    handler: Any = ServerHandler
    before = handler.log_exception
    handler.log_exception = lambda *args: None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        handler.log_exception = before
        server.shutdown()
        thread.join()
        server.server_close()
