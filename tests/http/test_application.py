"""Applications: loaded by name, and their interface found out."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oneloop.http.application import LoadError, interface_of, load


async def asgi3(scope: Any, receive: Any, send: Any) -> None:
    pass


def asgi2(scope: Any) -> Any:
    return lambda receive, send: None


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    return []


def plain_asgi(scope: Any, receive: Any, send: Any) -> Any:
    return asgi3(scope, receive, send)


def strangely_named(a: Any, b: Any, c: Any = None) -> Any:
    return []


def either(*arguments: Any) -> Any:
    return None


class AsgiObject:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pass


class WsgiObject:
    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        return []


class Asgi2Class:
    def __init__(self, scope: Any) -> None:
        pass

    async def __call__(self, receive: Any, send: Any) -> None:
        pass


class WsgiClass:
    def __init__(self, environ: Any, start_response: Any) -> None:
        pass

    def __iter__(self) -> Any:
        return iter([])


class Methods:
    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        pass

    def wsgi(self, environ: Any, start_response: Any) -> list[bytes]:
        return []


@functools.wraps(asgi3)
def wrapping(*arguments: Any) -> Any:
    return asgi3(*arguments)


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        (asgi3, "asgi3"),
        (plain_asgi, "asgi3"),
        (asgi2, "asgi2"),
        (wsgi, "wsgi"),
        (strangely_named, "wsgi"),
        (AsgiObject(), "asgi3"),
        (WsgiObject(), "wsgi"),
        (Asgi2Class, "asgi2"),
        (WsgiClass, "wsgi"),
        (Methods().asgi, "asgi3"),
        (Methods().wsgi, "wsgi"),
        (functools.partial(asgi3), "asgi3"),
        (wrapping, "asgi3"),
        (lambda environ, start_response: [], "wsgi"),
        (lambda scope, receive, send: None, "asgi3"),
    ],
)
def test_interfaces_are_found_out(app: Any, kind: str) -> None:
    assert interface_of(app) == kind


@pytest.mark.parametrize("app", [either, functools.partial(either, 1), print])
def test_what_cannot_be_found_out_is_an_error_that_names_the_option(app: Any) -> None:
    with pytest.raises(LoadError, match="ASGI or WSGI: use --interface asgi3 or --interface wsgi"):
        load(app)
    assert load(app, interface="wsgi").interface == "wsgi"
    assert load(app, interface="asgi3").interface == "asgi"


FRAMEWORKS = {
    "flask": ("Flask", ("name",), "wsgi"),
    "starlette.applications": ("Starlette", (), "asgi3"),
    "fastapi": ("FastAPI", (), "asgi3"),
    "quart": ("Quart", ("name",), "asgi3"),
    "litestar": ("Litestar", (), "asgi3"),
    "falcon": ("App", (), "wsgi"),
    "falcon.asgi": ("App", (), "asgi3"),
}


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_frameworks(module: str) -> None:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"needs {module}")
    name, arguments, kind = FRAMEWORKS[module]
    # In a process of its own: some of them start threads that never end.
    source = f"""if True:
        from oneloop.http.application import interface_of
        from {module} import {name}
        print(interface_of({name}(*{arguments})))
    """
    done = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, timeout=50, check=True)
    assert done.stdout == f"{kind}\n"


@pytest.mark.parametrize(("module", "kind"), [("asgi", "asgi3"), ("wsgi", "wsgi")])
def test_django(module: str, kind: str) -> None:
    pytest.importorskip("django")
    handlers: Any = importlib.import_module(f"django.core.handlers.{module}")
    handler = handlers.ASGIHandler if module == "asgi" else handlers.WSGIHandler
    # Made without its settings.
    assert interface_of(handler.__new__(handler)) == kind


def test_asgi2_is_wrapped() -> None:
    heard: list[Any] = []

    def app(scope: Any) -> Any:
        async def call(receive: Any, send: Any) -> None:
            heard.extend([scope, receive, send])

        return call

    loaded = load(app)
    assert (loaded.interface, loaded.kind) == ("asgi", "asgi2")
    with pytest.raises(StopIteration):
        loaded.call(1, 2, 3).send(None)
    assert heard == [1, 2, 3]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return tmp_path


def test_names_are_imported_from_the_folder(module: Path) -> None:
    (module / "loaded_one.py").write_text("class box:\n    @staticmethod\n    def app(environ, start_response): ...\n")
    assert load("loaded_one:box.app", app_dir=str(module)).kind == "wsgi"


def test_factories(module: Path) -> None:
    (module / "loaded_two.py").write_text(
        "def make():\n    async def app(scope, receive, send): ...\n    return app\n"
        "def bad():\n    raise KeyError('x')\n"
    )
    found = load("loaded_two:make", app_dir=str(module))
    assert (found.kind, found.is_from_factory) == ("asgi3", True)
    assert not load("loaded_two:make", app_dir=str(module), factory=True).is_from_factory
    with pytest.raises(LoadError, match="the factory loaded_two:bad failed: 'x'") as caught:
        load("loaded_two:bad", app_dir=str(module), factory=True)
    assert "KeyError" in caught.value.details


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", "'nothing' is not the name of an application: write package.module:app"),
        ("nothing:", "is not the name of an application"),
        ("folder/app.py:app", "is a file: write the name of the module"),
        ("app.py", "'app.py' is a file: write the name of the module, such as package.module:app"),
        ("no_such_module:app", "there is no module 'no_such_module': run the command in"),
        ("loaded_bad.no_such:app", "there is no module 'loaded_bad.no_such'"),
        ("loaded_raises:app", "importing 'loaded_raises' failed: ZeroDivisionError"),
        ("loaded_exits:app", "importing 'loaded_exits' failed: SystemExit"),
        ("loaded_imports:app", "importing 'loaded_imports' failed: No module named 'no_such_dependency'"),
        ("loaded_bad:other", "the module 'loaded_bad' has no attribute 'other'"),
        ("loaded_bad:number", "loaded_bad:number is of the type int, not an application"),
        ("loaded_bad:sys", "loaded_bad:sys is a module, not an application"),
    ],
)
def test_what_cannot_be_loaded_says_why(module: Path, name: str, text: str) -> None:
    (module / "loaded_bad.py").write_text("import sys\nnumber = 1\n")
    (module / "loaded_raises.py").write_text("1 / 0\n")
    (module / "loaded_exits.py").write_text("raise SystemExit(0)\n")
    (module / "loaded_imports.py").write_text("import no_such_dependency\n")
    with pytest.raises(LoadError) as caught:
        load(name, app_dir=str(module))
    assert text in str(caught.value)


@pytest.mark.parametrize(("app", "given", "seen"), [(asgi3, "wsgi", "asgi3"), (wsgi, "asgi3", "wsgi")])
def test_an_interface_that_does_not_fit_is_warned_of(
    app: Any, given: Any, seen: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "oneloop.error"):
        assert load(app, interface=given).kind == given
        assert f"--interface {given} was given, but {app.__name__} looks like {seen}." in caplog.text
        assert f"use --interface {seen}" in caplog.text
        caplog.clear()
        load(app, interface=seen)  # type: ignore[arg-type]
        load(either, interface=given)
    assert caplog.text == ""
