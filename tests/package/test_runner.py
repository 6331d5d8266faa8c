"""`oneloop.run`, `new_event_loop`, `install` and `EventLoopPolicy`."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from textwrap import dedent
from typing import Any

import pytest

import oneloop
from tests import programs


async def current() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_run_makes_a_loop_and_closes_it() -> None:
    loop = oneloop.run(current())
    assert isinstance(loop, oneloop.Loop)
    assert loop.is_closed()


def test_run_takes_debug_and_another_factory() -> None:
    async def debug() -> bool:
        return asyncio.get_running_loop().get_debug()

    assert oneloop.run(debug(), debug=True) is True
    assert oneloop.run(debug(), debug=False) is False
    assert isinstance(oneloop.run(current(), loop_factory=asyncio.SelectorEventLoop), asyncio.SelectorEventLoop)


def test_run_inside_a_loop_is_refused() -> None:
    async def outer() -> None:
        inner = current()
        try:
            with pytest.raises(RuntimeError, match="cannot be called from a running event loop"):
                oneloop.run(inner)
        finally:
            inner.close()

    oneloop.run(outer())


@pytest.mark.parametrize("what", [None, 1, current])
def test_run_of_no_coroutine_fails_as_asyncios(what: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011  (compared below)
        asyncio.run(what)
    with pytest.raises(type(expected.value)):
        oneloop.run(what)


def test_run_returns_what_main_raises() -> None:
    async def fails() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        oneloop.run(fails())


def test_loop_works_with_asyncios_own_runner() -> None:
    with asyncio.Runner(loop_factory=oneloop.new_event_loop) as runner:
        assert isinstance(runner.run(current()), oneloop.Loop)


@pytest.mark.skipif(sys.version_info >= (3, 16), reason="asyncio has no policies")
def test_policy_makes_our_loops_and_is_asyncios() -> None:
    policy = oneloop.EventLoopPolicy()
    loop = policy.new_event_loop()
    try:
        assert isinstance(loop, oneloop.Loop)
        policy.set_event_loop(loop)
        assert policy.get_event_loop() is loop
    finally:
        policy.set_event_loop(None)
        loop.close()


def run_program(program: str) -> str:
    done = programs.run_command(sys.executable, "-W", "error", "-c", dedent(program))
    assert done.stderr == ""
    return done.stdout


def test_install_reaches_every_unnamed_loop_without_a_warning() -> None:
    shown = run_program(
        """
        import asyncio
        from asyncio import new_event_loop, run
        import oneloop

        async def which():
            print(type(asyncio.get_running_loop()).__module__)

        oneloop.install()
        oneloop.install()
        asyncio.run(which())
        run(which())
        with asyncio.Runner() as runner:
            runner.run(which())
        for make in asyncio.new_event_loop, new_event_loop:
            loop = make()
            loop.run_until_complete(which())
            loop.close()
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(which())
        """
    )
    assert shown == "oneloop.loop\n" * 5 + "asyncio.unix_events\n"


def test_isolated_async_test_case_runs_on_our_loop() -> None:
    shown = run_program(
        """
        import asyncio, unittest
        import oneloop
        oneloop.install()

        class Case(unittest.IsolatedAsyncioTestCase):
            async def test_loop(self):
                print(type(asyncio.get_running_loop()).__module__)

        case = Case("test_loop")
        result = case.run()
        assert result is None or result.wasSuccessful(), result
        """
    )
    assert shown == "oneloop.loop\n"


def test_a_wrong_argument_of_the_loop_is_only_a_type_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TypeError, match="'virtual'"):
        oneloop.Loop(virtual=True)  # type: ignore[call-arg]
    gc.collect()
    assert ignored == []
    assert len(os.listdir("/proc/self/fd")) == descriptors
