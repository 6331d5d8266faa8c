"""The HTTP servers: what each can serve, and the command that starts it.

The servers in `catalogue` support HTTP as one of several forms. `uvicorn on uvloop` means a program on a loop;
`threads on oneloop` and `green on oneloop` are the two ways in which `oneloop serve` runs WSGI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.catalogue import SUBJECT, Serve, has_module, missing_reason, server_argv, server_env
from bench.model import RivalMissingError
from bench.rivals.endpoint import find_nginx
from bench.rivals.http_apps import APPS
from bench.rivals.loops import MODULES as LOOPS
from bench.timed import python_module

NGINX = "nginx"
NGINX_CACHED = "nginx-cached"
NGINX_CACHED_CORK = "nginx-cached-cork"
SUBJECT_THREADS = f"threads on {SUBJECT}"
SUBJECT_GREEN = f"green on {SUBJECT}"

_ASGI = frozenset({"http", "fastapi"})
_WSGI = frozenset({"wsgi", "flask"})


@dataclass(frozen=True)
class Launcher:
    """A module of bench.rivals that starts a server.

    Args:
        forms: the forms that it supports.
        needs: Python modules that the server needs.
        program: which of the module's programs, if it has several.
        many: the module that starts it with several workers; empty if it is measured with one only.
        socket_needs: further modules for WebSockets.
    """

    module: str
    forms: frozenset[str]
    needs: tuple[str, ...] = ()
    program: str = ""
    many: str = ""
    socket_needs: tuple[str, ...] = ()

    def modules(self, form: str) -> tuple[str, ...]:
        """The modules that the server needs for a form."""
        return (*self.needs, *self.socket_needs) if form == "websocket" else self.needs


#: Programs that run on any asyncio loop.
ON_LOOPS = {
    "aiohttp": Launcher("asyncio_http", frozenset({"http"}), ("aiohttp",)),
    "httptools": Launcher("asyncio_http", frozenset({"http"}), ("httptools",)),
    "httptools-cookies": Launcher("asyncio_http", frozenset({"http"}), ("httptools",)),
    "uvicorn": Launcher(
        "asyncio_http",
        _ASGI | {"websocket"},
        ("uvicorn", "httptools"),
        many="uvicorn_workers",
        socket_needs=("websockets",),
    ),
    "uvicorn-zttp": Launcher("asyncio_http", _ASGI, ("uvicorn", "zttp")),
    "uvicorn-wsproto": Launcher("asyncio_http", frozenset({"websocket"}), ("uvicorn", "wsproto")),
    "hypercorn": Launcher("asyncio_http", _ASGI | {"websocket"}, ("hypercorn",)),
    "websockets": Launcher("asyncio_http", frozenset({"websocket"}), ("websockets",)),
}
OTHERS = {
    SUBJECT: Launcher("oneloop_http", _ASGI | {"websocket", "static"}, ("oneloop.http",), "asgi", many="oneloop_http"),
    SUBJECT_THREADS: Launcher("oneloop_http", _WSGI, ("oneloop.http",), "threads"),
    SUBJECT_GREEN: Launcher("oneloop_http", _WSGI, ("oneloop.http", "greenlet"), "green"),
    "granian": Launcher("granian_server", _ASGI | _WSGI | {"websocket", "static"}, ("granian",), many="granian_server"),
    "fastpysgi": Launcher("fastpysgi_server", _ASGI | _WSGI, ("fastpysgi",)),
    "socketify": Launcher("socketify_server", _ASGI | _WSGI, ("socketify",)),
    "h2corn": Launcher("h2corn_server", frozenset({"http"}), ("h2corn",)),
    "gunicorn-gthread": Launcher("gunicorn_server", _WSGI, ("gunicorn",), "gthread"),
    "gunicorn-sync": Launcher("gunicorn_server", _WSGI, ("gunicorn",), "sync"),
    "gunicorn-gevent": Launcher("gunicorn_server", _WSGI, ("gunicorn", "gevent"), "gevent"),
    "pywsgi": Launcher("pywsgi_server", _WSGI, ("gevent",)),
    NGINX: Launcher("nginx_server", frozenset({"static"}), program="usual"),
    NGINX_CACHED: Launcher("nginx_server", frozenset({"static"}), program="cached"),
    NGINX_CACHED_CORK: Launcher("nginx_server", frozenset({"static"}), program="cached-cork"),
}
HTTP_SERVERS = (*ON_LOOPS, *OTHERS)


def subject_exists() -> bool:
    """Whether oneloop serves HTTP."""
    return has_module("oneloop.http")


def _launcher(rival: str) -> tuple[Launcher, tuple[str, ...]] | None:
    """The launcher and its options, or None for a server of `catalogue`. Raises RivalMissingError."""
    if rival in OTHERS:
        launcher = OTHERS[rival]
        return launcher, ("--program", launcher.program) if launcher.program else ()
    program, _, loop = rival.partition(" on ")
    if program not in ON_LOOPS or loop not in LOOPS:
        return None
    reason = missing_reason(loop)
    if reason:
        raise RivalMissingError(reason)
    return ON_LOOPS[program], ("--program", program, "--loop", loop)


def start(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    """The command that starts an HTTP server. Raises RivalMissingError."""
    found = _launcher(rival)
    if found is None:
        return server_argv(rival, serve), server_env(rival, serve.cpus)
    launcher, options = found
    if serve.form not in launcher.forms:
        raise RivalMissingError(f"{rival} has no {serve.form} form")
    app_needs = APPS[serve.form].needs
    for module in (*launcher.modules(serve.form), *((app_needs,) if app_needs else ())):
        if not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
    if rival.startswith(NGINX) and find_nginx() is None:
        raise RivalMissingError("nginx is not installed")
    if serve.workers > 1 and not launcher.many:
        raise RivalMissingError(f"{rival} is measured with one worker only")
    module = launcher.many if serve.workers > 1 else launcher.module
    return python_module(module, *options, *serve.options()), {}
