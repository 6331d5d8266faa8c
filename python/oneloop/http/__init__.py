"""An HTTP/1.1 and WebSocket server for ASGI and WSGI applications.

Call `await serve(app, port=8000)` in a coroutine, or `run(app, workers=4)` in a program that does nothing else. The
command is `oneloop serve package.module:app`. All three have the same options; see `Options`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.http.application import LoadError
    from oneloop.http.errors import DisconnectedError
    from oneloop.http.lifespan import LifespanError
    from oneloop.http.listeners import ListenError
    from oneloop.http.options import OptionError, Options
    from oneloop.http.service import run, serve

__all__ = ["DisconnectedError", "LifespanError", "ListenError", "LoadError", "OptionError", "Options", "run", "serve"]

# Public name -> its module. Loaded lazily, because a parent process does not need the workers' modules.
_MODULES = {
    "DisconnectedError": "errors",
    "LifespanError": "lifespan",
    "ListenError": "listeners",
    "LoadError": "application",
    "OptionError": "options",
    "Options": "options",
    "run": "service",
    "serve": "service",
}


if not TYPE_CHECKING:  # with a `__getattr__`, a type checker would accept any name

    def __getattr__(name):
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module 'oneloop.http' has no attribute {name!r}")
        value = getattr(import_module(f"oneloop.http.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
