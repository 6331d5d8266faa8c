"""`Application`: the served application, and whether it is ASGI or WSGI.

An application is loaded by its name (`package.module:app`). It is not called to detect its interface: that is derived
from its class, from being a coroutine function, or from its signature.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Application", "LoadError", "interface_of", "load"]

log = logging.getLogger("oneloop.error")

Kind: TypeAlias = Literal["asgi3", "asgi2", "wsgi"]

# Classes whose signature does not show the interface, by module and name. Searched in the order of the MRO.
_KNOWN: dict[tuple[str, str], Kind] = {
    ("django.core.handlers.asgi", "ASGIHandler"): "asgi3",
    ("django.core.handlers.wsgi", "WSGIHandler"): "wsgi",
    ("starlette.applications", "Starlette"): "asgi3",
    ("quart.app", "Quart"): "asgi3",
    ("litestar.app", "Litestar"): "asgi3",
    ("falcon.asgi.app", "App"): "asgi3",
    ("falcon.app", "App"): "wsgi",
    ("sanic.app", "Sanic"): "asgi3",
    ("flask.app", "Flask"): "wsgi",
    ("flask.sansio.app", "App"): "wsgi",
    ("bottle", "Bottle"): "wsgi",
    ("pyramid.router", "Router"): "wsgi",
    ("whitenoise.base", "WhiteNoise"): "wsgi",
}
_ASGI_NAMES = ("scope", "receive", "send")
_WSGI_NAMES = ("environ", "start_response")
_BY_COUNT: dict[int, Kind] = {1: "asgi2", 2: "wsgi", 3: "asgi3"}


class LoadError(Exception):
    """The application cannot be loaded, or its interface cannot be detected; `details` is a traceback, or empty."""

    def __init__(self, text: str, details: str = "") -> None:
        super().__init__(text)
        self.details = details


@dataclass(frozen=True, slots=True)
class Application:
    """A loaded application.

    Attributes:
        call: an ASGI 3 or WSGI application; an ASGI 2 application is wrapped.
        interface: the argument for `oneloop._native.HttpServer`: "asgi" or "wsgi".
        kind: the detected or given interface.
        is_from_factory: True if a factory was detected and called without the option `factory`.
    """

    call: Callable[..., Any]
    interface: Literal["asgi", "wsgi"]
    kind: Kind
    is_from_factory: bool = False


def load(
    app: object,
    *,
    interface: Literal["auto", "asgi3", "asgi2", "wsgi"] = "auto",
    factory: bool = False,
    app_dir: str | None = None,
) -> Application:
    """Load an application.

    Args:
        app: the application, a factory of it, or the name of one of these, `package.module:attribute`.
        interface: the application's interface; "auto" detects it.
        factory: call `app` without arguments to get the application.
        app_dir: a directory to put first in `sys.path`; "" is the current one. None: do not change `sys.path`.

    Raises:
        LoadError: it cannot be loaded, or is not an ASGI or WSGI application.
    """
    found = app
    if isinstance(app, str):
        if app_dir is not None:
            folder = str(Path(app_dir).absolute()) if app_dir else str(Path.cwd())
            if folder not in sys.path:
                sys.path.insert(0, folder)
        found = _import(app)
    name = app if isinstance(app, str) else _name_of(app)
    is_found_out = not factory and interface == "auto" and _is_factory(found)
    if factory or is_found_out:
        if not callable(found):
            raise LoadError(f"{name} is not callable, so it is not a factory: leave out --factory")
        try:
            found = found()
        except Exception as error:
            raise LoadError(f"the factory {name} failed: {error}", traceback.format_exc()) from error
    if not callable(found):
        raise LoadError(
            f"{name} is {_article(found)}, not an application: pass an ASGI or WSGI application, which is callable, or"
            " its name, such as 'package.module:app'"
        )
    kind = interface_of(found, name) if interface == "auto" else interface
    if interface != "auto":
        _warn_of_another(found, name, interface)
    if kind == "wsgi":
        return Application(found, "wsgi", kind, is_found_out)
    return Application(_as_asgi3(found) if kind == "asgi2" else found, "asgi", kind, is_found_out)


def _import(name: str) -> object:
    module_name, _, path = name.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        example = f"package.module:{path or 'app'}"
        raise LoadError(f"{module_name!r} is a file: write the name of the module, such as {example}")
    if not module_name or not path:
        raise LoadError(f"{name!r} is not the name of an application: write package.module:app")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # If the module exists and one of its imports fails, show the traceback.
        parts = module_name.split(".")
        if error.name and error.name in [".".join(parts[: n + 1]) for n in range(len(parts))]:
            raise LoadError(
                f"there is no module {error.name!r}: run the command in the directory that contains it, or name that"
                " directory with --app-dir"
            ) from error
        raise LoadError(f"importing {module_name!r} failed: {error}", traceback.format_exc()) from error
    except (Exception, SystemExit) as error:
        raise LoadError(f"importing {module_name!r} failed: {error!r}", traceback.format_exc()) from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise LoadError(f"the module {module_name!r} has no attribute {path!r}") from error
    return found


def interface_of(app: object, name: str = "the application") -> Kind:
    """Detect the interface of an application.

    Raises:
        LoadError: it cannot be detected.
    """
    while isinstance(app, functools.partial) and not app.args and not app.keywords:
        app = app.func
    if inspect.isclass(app):
        return _interface_of_class(app, name)
    for kind in type(app).__mro__:  # pyright: ignore[reportFunctionMemberAccess]
        known = _KNOWN.get((kind.__module__, kind.__name__))
        if known is not None:
            return known
    if _is_coroutine_function(app):
        return "asgi3"
    return _by_signature(app, name)


def _interface_of_class(app: type[Any], name: str) -> Kind:
    """Detect the interface of a class that is called per request: its instances are awaited, called or iterated."""
    if hasattr(app, "__await__"):
        return "asgi3"
    call = inspect.getattr_static(app, "__call__", None)
    if inspect.iscoroutinefunction(call):
        return "asgi2"
    if hasattr(app, "__iter__"):
        return "wsgi"
    return _by_signature(app, name)


def _by_signature(app: object, name: str) -> Kind:
    parameters = _positional(app)
    if parameters is not None:
        required = [one for one in parameters if one.default is one.empty]
        names = tuple(one.name.lstrip("_") for one in parameters)
        if names[:3] == _ASGI_NAMES:
            return "asgi3"
        if names[:2] == _WSGI_NAMES:
            return "wsgi"
        if len(required) in _BY_COUNT:
            return _BY_COUNT[len(required)]
    raise LoadError(
        f"{name} is {_article(app)}, and it cannot be detected whether it is ASGI or WSGI: use --interface asgi3 or "
        "--interface wsgi (interface='asgi3' in Python)"
    )


def _warn_of_another(app: object, name: str, given: Kind) -> None:
    """Log a warning if an application looks like another interface than the given one."""
    try:
        seen = interface_of(app, name)
    except LoadError:
        return
    if seen != given:
        log.warning(
            "--interface %s was given, but %s looks like %s. If requests fail with status 500, use --interface %s.",
            given,
            name,
            seen,
            seen,
        )


def _is_factory(app: object) -> bool:
    """Return True for a function without parameters: it cannot be an application."""
    if not inspect.isroutine(app):
        return False
    parameters = _positional(app)
    return parameters is not None and not parameters


def _positional(app: object) -> list[inspect.Parameter] | None:
    """Return the positional parameters of a callable; None if it has `*args`, or its signature is unknown."""
    if not callable(app):
        return None
    try:
        parameters = inspect.signature(app).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _is_coroutine_function(app: object) -> bool:
    while isinstance(app, functools.partial):
        app = app.func
    if inspect.iscoroutinefunction(app):
        return True
    # A decorator may have wrapped the method.
    call = inspect.getattr_static(type(app), "__call__", None)
    return inspect.isfunction(call) and inspect.iscoroutinefunction(inspect.unwrap(call))


def _as_asgi3(app: Callable[..., Any]) -> Callable[..., Any]:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app(scope)(receive, send)

    return call


def _name_of(app: object) -> str:
    shown = getattr(app, "__qualname__", None)
    return shown if isinstance(shown, str) else f"{app!r:.80}"


def _article(app: object) -> str:
    if inspect.isclass(app):
        return f"the class {app.__qualname__}"
    if inspect.ismodule(app):
        return "a module"
    return f"of the type {type(app).__qualname__}"
