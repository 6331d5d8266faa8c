"""The exception handler: set, unset, called, failing itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest


def run_failing(loop: asyncio.AbstractEventLoop) -> None:
    def fail() -> None:
        raise LookupError("in a callback")

    loop.call_soon(fail)
    loop.stop()
    loop.run_forever()


def test_a_handler_is_called_with_loop_and_context(loop: asyncio.AbstractEventLoop) -> None:
    calls: list[tuple[Any, Any]] = []
    handler = lambda *arguments: calls.append(arguments)  # noqa: E731
    loop.set_exception_handler(handler)
    assert loop.get_exception_handler() is handler
    run_failing(loop)
    ((given_loop, context),) = calls
    assert given_loop is loop
    assert {"message", "exception", "handle"} <= set(context)


def test_without_a_handler_it_is_logged(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None
    with caplog.at_level(logging.ERROR, "asyncio"):
        run_failing(loop)
    assert "Exception in callback" in caplog.text
    assert "LookupError: in a callback" in caplog.text


def test_a_handler_that_fails_is_logged(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        raise ZeroDivisionError("in the handler")

    loop.set_exception_handler(handler)
    with caplog.at_level(logging.ERROR, "asyncio"):
        run_failing(loop)
    assert "Unhandled error in exception handler" in caplog.text
    assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"


def test_a_handler_that_raises_keyboard_interrupt_leaves_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    loop.set_exception_handler(handler)
    with pytest.raises(KeyboardInterrupt):
        run_failing(loop)


def test_an_overridden_default_handler_is_used(loop_factory: Any) -> None:
    base: Any = type(made := loop_factory())
    made.close()
    contexts: list[dict[str, Any]] = []

    class Loop(base):  # type: ignore[misc]
        def default_exception_handler(self, context: dict[str, Any]) -> None:
            contexts.append(context)

    loop = Loop()
    try:
        run_failing(loop)
    finally:
        loop.close()
    assert len(contexts) == 1


@pytest.mark.parametrize("handler", [1, "text", object()])
def test_what_is_not_a_handler(loop: asyncio.AbstractEventLoop, handler: Any) -> None:
    with pytest.raises(TypeError, match="A callable object or None is expected"):
        loop.set_exception_handler(handler)


def test_calling_it_by_hand(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    loop.call_exception_handler({"message": "by hand"})
    assert reported.take() == [{"message": "by hand"}]
