"""`pywsgi`: an HTTP/1 server for WSGI applications, with a green thread for each connection; gevent's names."""

from __future__ import annotations

from oneloop.green.pywsgi.body import Input
from oneloop.green.pywsgi.environ import Environ, SecureEnviron, WSGISecureEnviron
from oneloop.green.pywsgi.handler import WSGIHandler
from oneloop.green.pywsgi.heads import MAX_REQUEST_LINE
from oneloop.green.pywsgi.logs import LoggingLogAdapter

# Gevent's private name, which programs use.
from oneloop.green.pywsgi.logs import NoLog as _NoopLog  # noqa: F401  # pyright: ignore[reportUnusedImport]
from oneloop.green.pywsgi.server import WSGIServer

__all__ = [
    "MAX_REQUEST_LINE",
    "Environ",
    "Input",
    "LoggingLogAdapter",
    "SecureEnviron",
    "WSGIHandler",
    "WSGISecureEnviron",
    "WSGIServer",
]
