"""`oneloop.compat`: uvloop's names on oneloop, and how a program gets them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

import oneloop
from oneloop import compat
from oneloop.compat import uvloop
from tests import programs

# dir(uvloop) of 0.23.0 without underscores, its modules and what is loaded on demand.
NAMES = ["EventLoopPolicy", "Loop", "__all__", "__version__", "install", "new_event_loop", "run"]


def test_facade_has_uvloops_public_names() -> None:
    for name in NAMES:
        assert hasattr(uvloop, name), name
    assert uvloop.__version__ == "0.23.0"
    with pytest.raises(AttributeError, match="uvloop"):
        _ = uvloop.nothing  # type: ignore[attr-defined]


async def current() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_run_and_new_event_loop_give_our_loop() -> None:
    assert isinstance(uvloop.run(current()), uvloop.Loop)
    assert uvloop.Loop is oneloop.Loop
    loop = uvloop.new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


@pytest.mark.parametrize("factory", [asyncio.SelectorEventLoop, None])
def test_run_refuses_another_loop_as_uvloop_does(factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
    main = current()
    with pytest.raises(TypeError, match="non-uvloop event loop"):
        uvloop.run(main, loop_factory=factory)
    main.close()


@pytest.mark.parametrize(
    ("factory", "message"),
    [(uvloop.new_event_loop, "can't be (used in 'await' expression|awaited)"), (None, "non-uvloop event loop")],
)
def test_run_without_a_coroutine_is_a_type_error_as_in_uvloop(
    factory: Callable[[], asyncio.AbstractEventLoop] | None, message: str
) -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match=message):
        uvloop.run(nothing, loop_factory=factory)


def test_run_takes_a_loop_of_a_subclass() -> None:
    class Own(uvloop.Loop):  # type: ignore[misc]
        pass

    assert type(uvloop.run(current(), loop_factory=Own)) is Own


def run_program(program: str) -> str:
    done = programs.run_command(sys.executable, "-c", dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_facade_is_what_import_finds() -> None:
    shown = run_program(
        """
        import asyncio, importlib, importlib.util
        from oneloop import compat
        compat.install("uvloop")
        compat.install("uvloop")
        import uvloop
        import uvloop.loop
        from uvloop.loop import Loop
        print(uvloop.__name__, Loop is uvloop.Loop is uvloop.loop.Loop)
        print(importlib.import_module("uvloop") is uvloop)
        print(importlib.util.find_spec("uvloop") is not None)
        uvloop.install()
        async def which():
            print(type(asyncio.get_running_loop()).__module__)
        asyncio.run(which())
        """
    )
    assert shown == "oneloop.compat.uvloop True\nTrue\nTrue\noneloop.loop\n"


def test_package_that_is_in_use_is_not_replaced() -> None:
    shown = run_program(
        """
        import sys, types
        sys.modules["uvloop"] = types.ModuleType("uvloop")
        from oneloop import compat
        try:
            compat.install("uvloop")
        except RuntimeError as error:
            print(error)
        """
    )
    assert shown == "'uvloop' was already imported: install the facade before the first import\n"


def test_unknown_name_lists_the_known() -> None:
    known = ("aiofiles", "gevent", "httpcore", "httpcore2", "httptools", "linux_aio", "uvloop")
    with pytest.raises(ValueError, match=f"no facade for 'trio'; use one of: {', '.join(known)}"):
        compat.install("trio")
    assert known == compat.KNOWN
